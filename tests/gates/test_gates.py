"""Gates: what the grammar reads, which rows it selects, and that verdict and exit code are one decision."""

import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import row

from attncli.errors import UsageError
from attncli.gates import decide_report_gates, exit_code_of_report, parse_condition
from attncli.records import FOUND_KEYS, Report, Row, Scalar
from attncli.render import FORMATS


def report(*made: Row) -> Report:
    return Report("example", "", made, {}, {})


def curve(values: Sequence[float | None], variant: str = "SAN") -> list[Row]:
    why = "n/a: too early"
    return [
        Row("order", value, "1", variant, layer, note=None if value is not None else why)
        for layer, value in enumerate(values)
    ]


def failed(condition: str, *made: Row) -> bool:
    (verdict,) = decide_report_gates(report(*made), [parse_condition(condition)])
    return verdict.failed


RISING = curve([0.0, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("order < 0", False),
        ("order <= 0", True),
        ("order > 3", False),
        ("order >= 3", True),
        ("order == 2", True),
        ("order == 2.5", False),
        ("order[layer=2] != 2", False),
        ("order[layer=2] != 1", True),
    ],
)
def test_every_operator(condition: str, fails: bool) -> None:
    assert failed(condition, *RISING) is fails


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("min(order) > -1", True),
        ("min(order) > 0", False),
        ("max(order) < 4", True),
        ("max(order) < 3", False),
        ("mean(order) == 1.5", True),
        ("any(order) > 2", True),
        ("any(order) > 3", False),
        ("all(order) >= 0", True),
        ("all(order) >= 1", False),
        ("order > 2", True),
        (" mean ( order [ layer = 1 : 2 ] ) == 1.5 ", True),
        ("all(order[2:])>=2", True),
    ],
)
def test_every_aggregate(condition: str, fails: bool) -> None:
    assert failed(condition, *RISING) is fails


HEADS = (
    Row("sink", 0.0, "1", layer=0, head=0),
    Row("sink", 1.0, "1", layer=0, head=1),
    Row("sink", 2.0, "1", layer=1, head=0),
    Row("sink", 3.0, "1", layer=1, head=1),
)
SWEPT = (
    Row("sink", 0.0, "1", "SAN", 2, keys={"tokens": 16, "init-scale": 0.5, "pattern": "a"}),
    Row("sink", 1.0, "1", "SAN", 2, keys={"tokens": 32, "init-scale": 1.5, "pattern": "b"}),
    Row("sink", 2.0, "1", "SAN+skip", 2, keys={"tokens": 64, "init-scale": 2.5, "pattern": "a"}),
)


@pytest.mark.parametrize(
    ("made", "selectors", "mean"),
    [
        (RISING, "", 1.5),
        (RISING, "[]", 1.5),
        (RISING, "[layer=1]", 1.0),
        (RISING, "[1]", 1.0),
        (RISING, "[layer=-1]", 3.0),
        (RISING, "[-1]", 3.0),
        (RISING, "[layer=-4]", 0.0),
        (RISING, "[layer=1:2]", 1.5),
        (RISING, "[layer=-2:-1]", 2.5),
        (RISING, "[1:]", 2.0),
        (RISING, "[:1]", 0.5),
        (RISING, "[SAN]", 1.5),
        (RISING, "[variant=SAN, layer=3]", 3.0),
        (RISING, "[SAN,2]", 2.0),
        (RISING, "[2,SAN]", 2.0),
        (HEADS, "[head=1]", 2.0),
        (HEADS, "[head=-2]", 1.0),
        (HEADS, "[layer=-1, head=-1]", 3.0),
        (SWEPT, "[tokens=16]", 0.0),
        (SWEPT, "[tokens=32:]", 1.5),
        (SWEPT, "[init-scale=0.5:1.5]", 0.5),
        (SWEPT, "[pattern=a]", 1.0),
        (SWEPT, "[SAN, pattern=b]", 1.0),
        (SWEPT, "[SAN+skip]", 2.0),
    ],
)
def test_every_selector(made: Sequence[Row], selectors: str, mean: float) -> None:
    metric = made[0].metric
    assert failed(f"mean({metric}{selectors}) == {mean}", *made)


def test_the_order_of_selectors_does_not_matter() -> None:
    """Two depths in one report, as in a sweep over layers: `-1` is the last layer of what the other selectors leave."""
    swept = [
        Row("order", float(depth), "1", layer=layer, keys={"layers": depth})
        for depth in (2, 4)
        for layer in range(depth + 1)
    ]
    assert failed("order[layers=2, layer=-1] == 2", *swept)
    assert failed("order[layer=-1, layers=2] == 2", *swept)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "order",
        "order <",
        "< 3",
        "order < x",
        "order < nan",
        "order > inf",
        "order => 3",
        "order = 3",
        "min order) < 3",
        "min(order < 3",
        "order) < 3",
        "median(order) < 3",
        "order[layer=] < 3",
        "order[=3] < 3",
        "order[layer=3 < 3",
        "order < 3 4",
        "order < 3\nand more",
    ],
)
def test_what_is_no_gate_is_refused_with_an_example_or_the_reason(text: str) -> None:
    with pytest.raises(UsageError, match=r"write it like|write axis=value|is not a number"):
        parse_condition(text)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("ordre < 3", "did you mean 'order'?"),
        ("xyz < 3", "there are: order."),
        ("order[transformer] < 3", "there are SAN, SAN+skip."),
        ("order[layer=9] < 3", "there are 0, 1, 2."),
        ("order[layer=-9] < 3", "there are 0, 1, 2."),
        ("order[layer=2:1] < 3", "there are 0, 1, 2."),
        ("order[layer=x] < 3", "there are 0, 1, 2."),
        ("order[head=0] < 3", "its rows have variant, layer."),
        ("order[length=3] < 3", "its rows have variant, layer."),
    ],
)
def test_a_gate_that_matches_nothing_says_what_there_is(condition: str, said: str) -> None:
    made = report(*curve([1, 2, 3]), *curve([1, 2, 3], "SAN+skip"))
    with pytest.raises(UsageError) as refusal:
        decide_report_gates(made, [parse_condition(condition)])
    assert str(refusal.value).endswith(said)


def test_many_layers_are_listed_as_a_range() -> None:
    with pytest.raises(UsageError, match=r"there are 0 … 12\.$"):
        decide_report_gates(report(*curve([1.0] * 13)), [parse_condition("order[layer=13] < 3")])


@pytest.mark.parametrize("condition", ["order < 2", "all(order) < 2", "mean(order) < 2"])
def test_nulls_are_left_out_of_what_is_tested(condition: str) -> None:
    assert failed(condition, *curve([None, 1.0]))
    assert not failed(condition, *curve([None, 3.0]))


@pytest.mark.parametrize("aggregate", ["min", "max", "mean", "any", "all"])
def test_nulls_alone_fail_and_say_why(aggregate: str) -> None:
    made = report(*curve([None, None]))
    (verdict,) = decide_report_gates(made, [parse_condition(f"{aggregate}(order) < -1e300")])
    assert verdict.failed
    assert verdict.text == "no number to test: SAN, layer 0: n/a: too early"


def test_a_number_that_is_lost_fails_every_gate() -> None:
    """A residual of exactly zero is null too: leaving it out would let the worst collapse pass."""
    rows = [Row("order", None, "1", "SAN", 1, note="zero, or beyond"), *curve([5.0])]
    (verdict,) = decide_report_gates(report(*rows), [parse_condition("order < -3")])
    assert verdict.failed
    assert verdict.text == "no number to test: SAN, layer 1: zero, or beyond"


def test_the_end_is_that_of_the_rows_alike() -> None:
    """In a sweep over depths, layer=-1 is each network's own last layer."""
    rows = [
        Row("order", float(layer), "1", "SAN", layer, keys={"layers": depth})
        for depth in (2, 4)
        for layer in range(depth + 1)
    ]
    (verdict,) = decide_report_gates(report(*rows), [parse_condition("order[layer=-1] > 1")])
    assert verdict.text.startswith("holds for 2 of 2 values: ")


@pytest.mark.parametrize("key", sorted(FOUND_KEYS))
def test_the_end_does_not_depend_on_what_was_found(key: str) -> None:
    """A null or a role that stands beside a number tells no rows apart."""
    rows = [Row("order", 1.0, "1", None, layer, 0, keys={key: f"{layer}"}) for layer in (0, 1)]
    (verdict,) = decide_report_gates(report(*rows), [parse_condition("order[layer=-1] > 0")])
    assert verdict.text == "layer 1, head 0: 1"


def test_the_verdict_shows_the_number_that_decided() -> None:
    made = report(*RISING, *HEADS, *SWEPT)
    conditions = [
        "order > 1",
        "order > 9",
        "mean(order) > 1",
        "sink[head=0] < 1",
        "sink[tokens=64] > 1",
    ]
    texts = [
        verdict.text for verdict in decide_report_gates(made, map(parse_condition, conditions))
    ]
    assert texts == [
        "holds for 2 of 4 values: SAN, layer 3: 3",
        "holds for none of 4 values; closest: SAN, layer 3: 3",
        "mean of 4 values: 1.5",
        "holds for 1 of 2 values: layer 0, head 0: 0",
        "SAN+skip, layer 2, tokens 64, init-scale 2.5, pattern a: 2",
    ]


def test_the_verdict_writes_large_numbers_as_the_tables_do() -> None:
    made = report(*curve([0.0, -1543566.2]))
    conditions = map(parse_condition, ["order < -3", "min(order) < -3"])
    texts = [verdict.text for verdict in decide_report_gates(made, conditions)]
    assert texts == [
        "holds for 1 of 2 values: SAN, layer 1: -1,543,566",
        "min of 2 values: -1,543,566",
    ]


class Gate(NamedTuple):
    """A condition before it is text, for an evaluator that never sees the text."""

    aggregate: str | None
    metric: str
    exact: dict[str, Scalar]
    layers: tuple[int, int] | None
    """Both ends included; negative = from the end."""
    op: str
    number: float

    def text(self, space: str) -> str:
        selectors = [f"{axis}={value}" for axis, value in self.exact.items()]
        if self.layers is not None:
            first, last = self.layers
            selectors.append(f"layer={first}" + (f":{last}" if last != first else ""))
        inside = f"[{space}{(',' + space).join(selectors)}]" if selectors else ""
        subject = self.metric + inside
        if self.aggregate:
            subject = f"{self.aggregate}({space}{subject}{space})"
        return f"{subject}{space}{self.op}{space}{self.number!r}"


quarters = st.integers(-2, 2).map(lambda quarter: quarter / 4)

layers = st.integers(-3, 3)
gates = st.builds(
    Gate,
    aggregate=st.sampled_from([None, "min", "max", "mean", "any", "all"]),
    metric=st.sampled_from(["order", "order", "entropy"]),
    exact=st.fixed_dictionaries({"variant": st.sampled_from(["SAN", "SAN+skip"])})
    | st.fixed_dictionaries({}, optional={"tokens": st.integers(1, 2), "head": st.integers(0, 1)}),
    layers=st.none() | layers.map(lambda layer: (layer, layer)) | st.tuples(layers, layers),
    op=st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    number=quarters,
)
measured = st.builds(
    row,
    metric=st.sampled_from(["order", "entropy"]),
    value=quarters | st.just(None) | quarters,
    spread=st.none(),
    note=st.sampled_from(["n/a: too early", "n/a: too early", "zero, or beyond"]),
    variant=st.sampled_from(["SAN", "SAN+skip"]),
    layer=st.integers(0, 3) | st.none(),
    head=st.none() | st.integers(0, 1),
    keys=st.just({}) | st.integers(1, 2).map(lambda tokens: {"tokens": tokens}),
)


def chosen(made: Sequence[Row], gate: Gate) -> list[Row]:
    left = [row for row in made if row.metric == gate.metric]
    for axis, value in gate.exact.items():
        left = [row for row in left if row.flat().get(axis) == value]
    if gate.layers is None:
        return left
    numbered = [row for row in left if row.layer is not None]
    kept = []
    for one in numbered:
        group = [other.layer or 0 for other in numbered if group_of(other) == group_of(one)]
        first, last = (layer + 1 + max(group) if layer < 0 else layer for layer in gate.layers)
        if one.layer in range(first, last + 1):
            kept.append(one)
    return kept


def group_of(row: Row) -> tuple[object, ...]:
    return (row.variant, row.head, *sorted(row.keys.items()))


def fails_the_build(rows: Sequence[Row], gate: Gate) -> bool:
    """A number that is lost or missing fails; what does not apply is left out."""
    if any(row.value is None and row.note == "zero, or beyond" for row in rows):
        return True
    numbers = [row.value for row in rows if row.value is not None]
    return not numbers or evaluated(numbers, gate)


def evaluated(values: Sequence[float], gate: Gate) -> bool:
    """Whether the build fails, in exact arithmetic."""
    holds = {
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
        "==": operator.eq,
        "!=": operator.ne,
    }[gate.op]
    exact = [Fraction(value) for value in values]
    if gate.aggregate == "mean":
        return bool(holds(float(sum(exact) / len(exact)), gate.number))
    if gate.aggregate in ("min", "max"):
        extreme = sorted(exact)[0 if gate.aggregate == "min" else -1]
        return bool(holds(extreme, gate.number))
    kept = [value for value in exact if holds(value, gate.number)]
    return len(kept) == len(exact) if gate.aggregate == "all" else len(kept) > 0


@pytest.mark.slow
@settings(max_examples=500)
@given(
    made=st.lists(measured, min_size=1, max_size=16),
    asked=st.lists(gates, min_size=1, max_size=2),
    space=st.sampled_from(["", " "]),
)
def test_verdict_exit_code_and_what_is_printed_agree_with_a_slow_evaluator(
    made: list[Row], asked: list[Gate], space: str
) -> None:
    conditions = [parse_condition(gate.text(space)) for gate in asked]
    picked = [chosen(made, gate) for gate in asked]
    if not all(picked):
        with pytest.raises(UsageError):
            decide_report_gates(report(*made), conditions)
        return
    judged = report(*made).with_verdicts(decide_report_gates(report(*made), conditions))
    fails = [fails_the_build(some, gate) for some, gate in zip(picked, asked, strict=True)]
    assert [verdict.failed for verdict in judged.verdicts] == fails
    assert exit_code_of_report(judged) == int(any(fails))
    assert FORMATS["markdown"](judged).count("❌") == sum(fails)


def test_the_slow_evaluator_is_not_vacuous() -> None:
    gate = Gate("mean", "order", {"variant": "SAN"}, (-2, -1), ">", 2.0)
    assert gate.text(" ") == "mean( order[ variant=SAN, layer=-2:-1] ) > 2.0"
    assert evaluated([2.0, 3.0], gate)
    assert not evaluated([2.0, 2.0], gate)
    assert chosen(RISING, gate) == RISING[2:]
    assert not chosen(RISING, gate._replace(layers=(7, 9)))
