"""Headline where no role is clear or none was looked for: for each metric, the head with the least and the head with the most."""

from collections.abc import Iterator, Sequence

from attncli.maths.number_format import format_short_number
from attncli.records import UNIFORM, Row

TOLD = 2
"""Most metrics in a headline."""


def describe_extreme_heads(rows: Sequence[Row]) -> str:
    """`rest_share from 0.0022 in head 0.3 to 0.55 in head 4.5, uniform attention 0.0042`; empty without such rows."""
    metrics = dict.fromkeys(row.metric for row in rows)
    sentences = (describe_metric_range(metric, rows) for metric in metrics)
    return "; ".join(list(filter(None, sentences))[:TOLD])


def describe_first_and_last_states(rows: Sequence[Row]) -> str:
    """`max_activation 24 after layer 0, up to 52 after layer 5, 23 after layer 6`; empty without states, or with those of
    several stacks."""
    states = [row for row in rows if row.head is None and row.layer is not None]
    sentences = []
    for metric in dict.fromkeys(row.metric for row in states):
        own = [row for row in states if row.metric == metric and row.value is not None]
        if len({row.layer for row in own}) == len(own) > 1:
            ends_first = [own[0], own[-1], *own]
            least, most = (
                pick(ends_first, key=lambda row: row.value or 0.0) for pick in (min, max)
            )
            words = {id(least): "down to ", id(most): "up to "} | {id(own[0]): "", id(own[-1]): ""}
            values = ", ".join(
                f"{words[id(row)]}{format_with_deviation(row.value or 0.0, row.spread)} after layer {row.layer}"
                for row in own
                if id(row) in words
            )
            sentences.append(f"{metric} {values}")
    return "; ".join(sentences[:TOLD])


def describe_metric_range(metric: str, rows: Sequence[Row]) -> str:
    heads = sorted(list_metric_values_of_heads(metric, rows), key=lambda each: each[0])
    if not heads:
        return ""
    (least, low, below), (most, high, above) = heads[0], heads[-1]
    from_, to = format_with_deviation(least, below), format_with_deviation(most, above)
    even = {
        null
        for row in rows
        if row.metric == metric and isinstance(null := row.keys.get(UNIFORM), float)
    }
    comparison = (
        f", uniform attention {format_short_number(even.pop(), 2)}" if len(even) == 1 else ""
    )
    if low == high:
        return f"{metric} {from_} in head {low}{comparison}"
    if least == most:
        return f"{metric} {format_short_number(least, 2)} in every head{comparison}"
    return f"{metric} from {from_} in head {low} to {to} in head {high}{comparison}"


def format_with_deviation(value: float, spread: float | None) -> str:
    """`0.27`, `0.27 ± 0.03` over several texts or draws."""
    return format_short_number(value, 2) + (
        "" if spread is None else f" ± {format_short_number(spread, 1)}"
    )


def list_metric_values_of_heads(
    metric: str, rows: Sequence[Row]
) -> Iterator[tuple[float, str, float | None]]:
    """Every head's value, with its location in words and its standard deviation."""
    for row in rows:
        if row.metric == metric and row.head is not None and row.value is not None:
            yield row.value, format_layer_and_head(row), row.spread


def format_layer_and_head(row: Row) -> str:
    """`1.0`; `decoder cross 1.0` where a layer's number is not enough."""
    where = "".join(f"{row.keys[name]} " for name in ("stack", "kind") if name in row.keys)
    return f"{where}{row.layer}.{row.head}"
