"""Findings about the weights of heads, most serious first, each number with its value for random
weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from attncli.errors import format_count
from attncli.head_weights.attention_kind_counts import AttentionLayerCounts
from attncli.maths.number_format import format_number
from attncli.metrics.weights._singular_value_metrics import ZERO
from attncli.records import Finding, Row

PRODUCTS = {"qk": "W_QK", "ov": "W_OV"}
DOES = {"qk": "what they attend to", "ov": "what they write"}

ONE_DIRECTION = 2.0
"""Stable rank below which one direction has more than half of a product's energy."""
CHANCE_IS_WIDE = 4.0
"""Stable rank of random weights from which that is remarkable."""
LOUD = 10.0
"""A head with more than this many times the median norm is reported."""
NAMED = 6
"""Heads that a sentence names."""

Head = tuple[int, int]


@dataclass(frozen=True)
class MeasuredWeights:
    """One metric over all heads, and its null."""

    values: Mapping[Head, float]
    zero: tuple[Head, ...]
    """Heads without a value because their product is zero."""
    null: float | None

    @classmethod
    def from_report_rows(
        cls, metric: str, rows: Sequence[Row], nulls: Sequence[Row]
    ) -> "MeasuredWeights":
        own = {layer_and_head_of_report_row(row): row for row in rows if row.metric == metric}
        return cls(
            {head: row.value for head, row in own.items() if row.value is not None},
            tuple(head for head, row in own.items() if (row.note or "").endswith(ZERO)),
            next((row.value for row in nulls if row.metric == metric), None),
        )


def layer_and_head_of_report_row(row: Row) -> Head:
    assert row.layer is not None
    assert row.head is not None
    return row.layer, row.head


def format_head_weights_headline(
    kind: str, heads: str, rows: Sequence[Row], nulls: Sequence[Row]
) -> str:
    """`heads`: `72`, or `2 of 72` where only some are looked at.

    `bert, 72 heads: median stable rank of W_QK 8.1 (random weights: 15.9), of W_OV 19.2 (15.9)`.
    """
    parts = []
    for product, symbol in PRODUCTS.items():
        found = MeasuredWeights.from_report_rows(f"{product}_stable_rank", rows, nulls)
        if found.values and found.null is not None:
            middle = format_number(median(found.values.values()))
            parts.append(f"{symbol} {middle} (random weights: {format_number(found.null)})")
    if not parts:
        return f"{kind}, {heads} heads, from their weights alone."
    return f"{kind}, {heads} heads: median stable rank of {', of '.join(parts)}."


def build_head_weight_findings(
    rows: Sequence[Row], nulls: Sequence[Row], counts: AttentionLayerCounts
) -> Iterator[Finding]:
    for product in PRODUCTS:
        yield from find_heads_with_zero_weights(product, rows, nulls)
    for product in PRODUCTS:
        yield from find_heads_near_rank_one(product, rows, nulls)
    for product in PRODUCTS:
        yield from find_heads_with_large_weights(product, rows, nulls)
    yield from find_heads_attending_to_similar_tokens(rows, nulls)
    yield from find_copying_heads(rows, nulls)
    yield Finding("census", counts.describe_layer_counts())


def find_heads_with_zero_weights(
    product: str, rows: Sequence[Row], nulls: Sequence[Row]
) -> Iterator[Finding]:
    zero = MeasuredWeights.from_report_rows(f"{product}_stable_rank", rows, nulls).zero
    if zero:
        what = {"qk": "they attend to all keys alike", "ov": "they write nothing"}[product]
        yield Finding(PRODUCTS[product], f"zero in {format_head_count_and_list(zero)}: {what}")


def find_heads_near_rank_one(
    product: str, rows: Sequence[Row], nulls: Sequence[Row]
) -> Iterator[Finding]:
    """Heads of which one direction is most."""
    found = MeasuredWeights.from_report_rows(f"{product}_stable_rank", rows, nulls)
    if found.null is None or found.null < CHANCE_IS_WIDE:
        return
    few = sorted((value, head) for head, value in found.values.items() if value < ONE_DIRECTION)
    if few:
        text = (
            f"one direction is more than half of {DOES[product]} in {format_head_count_and_list([head for _, head in few])}: stable rank "
            f"from {format_number(few[0][0])} (random weights: {format_number(found.null)})"
        )
        yield Finding(PRODUCTS[product], text)


def find_heads_with_large_weights(
    product: str, rows: Sequence[Row], nulls: Sequence[Row]
) -> Iterator[Finding]:
    values = MeasuredWeights.from_report_rows(f"{product}_frobenius", rows, nulls).values
    middle = median(values.values()) if values else 0.0
    far = sorted(((v, head) for head, v in values.items() if v > LOUD * middle > 0), reverse=True)
    if far:
        times = format_number(far[0][0] / middle)
        text = f"norm up to {times} times the median of {format_number(middle)}, in {format_head_count_and_list([head for _, head in far])}"
        yield Finding(PRODUCTS[product], text)


def find_heads_attending_to_similar_tokens(
    rows: Sequence[Row], nulls: Sequence[Row]
) -> Iterator[Finding]:
    found = MeasuredWeights.from_report_rows("qk_positive_share", rows, nulls)
    if found.values and found.null is not None:
        yield Finding(
            "W_QK",
            compare_head_share_with_random_weights(
                found, found.null, "tokens prefer keys like themselves"
            ),
        )


def find_copying_heads(rows: Sequence[Row], nulls: Sequence[Row]) -> Iterator[Finding]:
    found = MeasuredWeights.from_report_rows("ov_positive_share", rows, nulls)
    if found.values and found.null is not None:
        yield Finding(
            "W_OV",
            compare_head_share_with_random_weights(found, found.null, "heads copy what they read"),
        )


def compare_head_share_with_random_weights(
    measured: MeasuredWeights, control: float, what: str
) -> str:
    values = measured.values.values()
    most = sum(value > 0.5 for value in values)
    return (
        f"{what} in more than half of the directions in {most} of {format_count(len(values), 'head')} "
        f"(median share {format_number(median(values))}, random weights: {format_number(control)})"
    )


def format_head_count_and_list(heads: Sequence[Head]) -> str:
    """`2 heads (0.3, 1.0)`"""
    listed = ", ".join(f"{layer}.{head}" for layer, head in heads[:NAMED])
    more = ", …" if len(heads) > NAMED else ""
    return f"{len(heads)} head{'s' if len(heads) > 1 else ''} ({listed}{more})"
