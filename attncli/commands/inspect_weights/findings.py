"""What the weights of heads say in words, the most serious first, each number with what chance would give."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from attncli.errors import counted
from attncli.head_weights.census import Census
from attncli.maths.digits import number
from attncli.metrics.weights._products import ZERO
from attncli.records import Finding, Row

PRODUCTS = {"qk": "W_QK", "ov": "W_OV"}
DOES = {"qk": "what they attend to", "ov": "what they write"}

ONE_DIRECTION = 2.0
"""Stable rank below which one direction carries more than half of a product's energy."""
CHANCE_IS_WIDE = 4.0
"""Stable rank of random weights from which that is remarkable."""
LOUD = 10.0
"""Times the median norm from which a head stands out."""
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
    def of(cls, metric: str, rows: Sequence[Row], nulls: Sequence[Row]) -> "MeasuredWeights":
        own = {head_of(row): row for row in rows if row.metric == metric}
        return cls(
            {head: row.value for head, row in own.items() if row.value is not None},
            tuple(head for head, row in own.items() if (row.note or "").endswith(ZERO)),
            next((row.value for row in nulls if row.metric == metric), None),
        )


def head_of(row: Row) -> Head:
    assert row.layer is not None
    assert row.head is not None
    return row.layer, row.head


def headline(kind: str, heads: str, rows: Sequence[Row], nulls: Sequence[Row]) -> str:
    """`heads`: `72`, or `2 of 72` where only some are looked at.

    `bert, 72 heads: median stable rank of W_QK 8.1 (random weights: 15.9), of W_OV 19.2 (15.9)`.
    """
    parts = []
    for product, symbol in PRODUCTS.items():
        found = MeasuredWeights.of(f"{product}_stable_rank", rows, nulls)
        if found.values and found.null is not None:
            middle = number(median(found.values.values()))
            parts.append(f"{symbol} {middle} (random weights: {number(found.null)})")
    if not parts:
        return f"{kind}, {heads} heads, from their weights alone."
    return f"{kind}, {heads} heads: median stable rank of {', of '.join(parts)}."


def findings(rows: Sequence[Row], nulls: Sequence[Row], counts: Census) -> Iterator[Finding]:
    for product in PRODUCTS:
        yield from dead(product, rows, nulls)
    for product in PRODUCTS:
        yield from narrow(product, rows, nulls)
    for product in PRODUCTS:
        yield from loud(product, rows, nulls)
    yield from liking(rows, nulls)
    yield from copying(rows, nulls)
    yield Finding("census", counts.words())


def dead(product: str, rows: Sequence[Row], nulls: Sequence[Row]) -> Iterator[Finding]:
    zero = MeasuredWeights.of(f"{product}_stable_rank", rows, nulls).zero
    if zero:
        what = {"qk": "they attend to all keys alike", "ov": "they write nothing"}[product]
        yield Finding(PRODUCTS[product], f"zero in {named(zero)}: {what}")


def narrow(product: str, rows: Sequence[Row], nulls: Sequence[Row]) -> Iterator[Finding]:
    """Heads of which one direction is most."""
    found = MeasuredWeights.of(f"{product}_stable_rank", rows, nulls)
    if found.null is None or found.null < CHANCE_IS_WIDE:
        return
    few = sorted((value, head) for head, value in found.values.items() if value < ONE_DIRECTION)
    if few:
        text = (
            f"one direction is more than half of {DOES[product]} in {named([head for _, head in few])}: stable rank "
            f"from {number(few[0][0])} (random weights: {number(found.null)})"
        )
        yield Finding(PRODUCTS[product], text)


def loud(product: str, rows: Sequence[Row], nulls: Sequence[Row]) -> Iterator[Finding]:
    values = MeasuredWeights.of(f"{product}_frobenius", rows, nulls).values
    middle = median(values.values()) if values else 0.0
    far = sorted(((v, head) for head, v in values.items() if v > LOUD * middle > 0), reverse=True)
    if far:
        times = number(far[0][0] / middle)
        text = f"norm up to {times} times the median of {number(middle)}, in {named([head for _, head in far])}"
        yield Finding(PRODUCTS[product], text)


def liking(rows: Sequence[Row], nulls: Sequence[Row]) -> Iterator[Finding]:
    found = MeasuredWeights.of("qk_positive_share", rows, nulls)
    if found.values and found.null is not None:
        yield Finding("W_QK", shares(found, found.null, "tokens prefer keys like themselves"))


def copying(rows: Sequence[Row], nulls: Sequence[Row]) -> Iterator[Finding]:
    found = MeasuredWeights.of("ov_positive_share", rows, nulls)
    if found.values and found.null is not None:
        yield Finding("W_OV", shares(found, found.null, "heads copy what they read"))


def shares(found: MeasuredWeights, null: float, what: str) -> str:
    values = found.values.values()
    most = sum(value > 0.5 for value in values)
    return (
        f"{what} in more than half of the directions in {most} of {counted(len(values), 'head')} "
        f"(median share {number(median(values))}, random weights: {number(null)})"
    )


def named(heads: Sequence[Head]) -> str:
    """`2 heads (0.3, 1.0)`"""
    listed = ", ".join(f"{layer}.{head}" for layer, head in heads[:NAMED])
    more = ", …" if len(heads) > NAMED else ""
    return f"{len(heads)} head{'s' if len(heads) > 1 else ''} ({listed}{more})"
