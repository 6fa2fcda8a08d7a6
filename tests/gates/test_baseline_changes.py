"""Changes against a baseline: directions, units, noise, what is missing, and agreement with a slow evaluator."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from commands import attn
from hypothesis import given
from hypothesis import strategies as st

import attncli
from attncli.errors import NoBaseline, UsageError
from attncli.gates import exit_code_of_report, worst_exit_code
from attncli.gates.baseline_changes import decide_baseline_gates, parse_allowed_change
from attncli.records import Report, Row, Verdict


def report(*rows: Row) -> Report:
    return Report("example", "", rows, {}, {})


def number(value: float | None, spread: float | None = None, layer: int = 0) -> Row:
    note = None if value is not None else "n/a: too early"
    return Row("order", value, "1", "SAN", layer, spread=spread, note=note)


def verdict(text: str, old: Report, new: Report) -> Verdict:
    (found,) = decide_baseline_gates(new, old, [parse_allowed_change(text)], "old.json")
    return found


def failed(text: str, old: Row, new: Row) -> bool:
    return verdict(text, report(old), report(new)).failed


@pytest.mark.parametrize(
    ("text", "old", "new", "fails"),
    [
        ("order:0.5", 1.0, 1.5, False),
        ("order:0.5", 1.0, 1.75, True),
        ("order:0.5", 1.0, 0.25, True),
        ("order:-0.5", 1.0, 9.0, False),
        ("order:-0.5", 1.0, 0.25, True),
        ("order:+0.5", 1.0, 0.25, False),
        ("order:+0.5", 1.0, 1.75, True),
        ("order:0", 1.0, 1.0, False),
        ("order:-5%", -4.0, -4.25, True),
        ("order:-5%", -4.0, -4.125, False),
        ("order:5%", 0.0, 0.0, False),
        ("order:5%", 0.0, 1e-9, True),
        ("order[SAN, layer=-1] : +1e-3", 1.0, 1.25, True),
    ],
)
def test_signs_and_units(text: str, old: float, new: float, fails: bool) -> None:
    assert failed(text, number(old), number(new)) is fails


@pytest.mark.parametrize(
    ("spreads", "new", "fails"),
    [((3.0, 4.0), 10.0, False), ((3.0, 4.0), 10.5, True), ((3.0, 4.0), -10.5, True),
     ((0.0, 0.0), 0.0, False), ((0.0, 0.0), 1e-12, True)],
)  # fmt: skip
def test_noise_within_2s_of_both_spreads_passes(
    spreads: tuple[float, float], new: float, fails: bool
) -> None:
    """Two spreads of 3 and 4 make a noise of 5."""
    assert failed("order:2s", number(0.0, spreads[0]), number(new, spreads[1])) is fails


def test_without_spreads_noise_cannot_be_told() -> None:
    with pytest.raises(
        UsageError,
        match="needs standard deviations in both reports, and one of them has none at SAN, layer 0: ",
    ):
        failed("order:2s", number(0.0, 1.0), number(1.0))
    assert not failed("order:2s", number(1.0), number(1.0))


def test_the_number_that_decided_is_shown() -> None:
    old = report(number(-7.6, 0.2), number(1.0, 0.5, layer=1))
    new = report(number(-8.4, 0.2), number(1.25, 0.5, layer=1), number(3.0, layer=2))
    assert verdict("order:-0.5", old, new).text == (
        "1 of 2 values beyond the limit; farthest: SAN, layer 0: -7.6 → -8.4 (-0.8); 1 not in the baseline"
    )
    assert verdict("order[0]:2s", old, new).text.endswith(
        "(-2.83 standard deviations, n = 1 and 1)"
    )
    assert verdict("order[1]:5%", old, new).text.endswith("1 → 1.25 (+25%)")


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ((number(None),), "no number to test: SAN, layer 0: n/a: too early"),
        ((number(2.0, layer=1),), "no number to test: SAN, layer 0: it is in old.json alone"),
        ((Row("sink", 1.0, "1"),), "no number to test: SAN, layer 0: it is in old.json alone"),
    ],
)
def test_a_number_that_got_lost_fails(new: tuple[Row, ...], said: str) -> None:
    found = verdict("order:9", report(number(1.0)), report(*new))
    assert (found.failed, found.text) == (True, said)


def test_a_newly_lost_number_fails_where_the_baseline_had_none_either() -> None:
    lost = Row("order", None, "1", "SAN", 1, note="zero, or beyond")
    old = report(number(1.0), number(None, layer=1))
    assert verdict("order:9", old, report(number(1.0), lost)).failed
    assert not verdict("order:9", report(number(1.0), lost), report(number(1.0), lost)).failed


def test_nothing_to_compare_with_is_neither_a_regression_nor_a_typing_error() -> None:
    new = report(number(1.0), Row("sink", 1.0, "1"))
    with pytest.raises(NoBaseline, match=r"old\.json has no number to compare 'sink:1' with"):
        verdict("sink:1", report(number(1.0)), new)
    with pytest.raises(NoBaseline):
        verdict("order:1", report(number(None)), new)
    with pytest.raises(UsageError, match="did you mean 'order'"):
        verdict("ordr:1", new, new)
    assert NoBaseline.exit_code not in (0, 1, 2, 3, 4, 70, 130)


@pytest.mark.parametrize(
    "text", ["order", "order:", "order:x", "order:2ss", "order:--2", ":2", "order:1.2.3", "order:nan", "order[:2", "order:p", "order:p.05%", "order:ps"]
)  # fmt: skip
def test_what_is_no_change_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"log10_residual:-0\.5"):
        parse_allowed_change(text)


def test_what_was_found_is_no_coordinate() -> None:
    """A head that changed its role is still the same head, and the null beside its number may move."""

    def found(role: str, value: float) -> Report:
        row = Row("sink", value, "1", layer=0, head=0, keys={"role": role, "uniform": value / 3})
        return report(row)

    verdict_text = verdict("sink:0.25", found("S", 0.75), found("P", 0.25)).text
    assert verdict_text == ("beyond the limit: layer 0, head 0: 0.75 → 0.25 (-0.5)")


quarters = st.integers(-8, 8).map(lambda quarter: quarter / 4)
values = st.none() | quarters
curves = st.dictionaries(
    st.integers(0, 3), st.tuples(values, st.integers(0, 4).map(float)), min_size=1
)


def curve(points: dict[int, tuple[float | None, float]]) -> Report:
    return report(
        *(
            number(value, spread if value is not None else None, layer)
            for layer, (value, spread) in points.items()
        )
    )


def too_far(old: float, new: float, noise: tuple[float, float], sign: str, limit: float, unit: str) -> bool:  # fmt: skip
    """In exact arithmetic, squared where there is a root."""
    change = Fraction(new) - Fraction(old)
    change = {"": abs(change), "+": change, "-": -change}[sign]
    if unit == "s":
        return change > 0 and change**2 > Fraction(limit) ** 2 * sum(Fraction(s) ** 2 for s in noise)  # fmt: skip
    return change > Fraction(limit) * (abs(Fraction(old)) / 100 if unit == "%" else 1)


@pytest.mark.slow
@given(
    old=curves,
    new=curves,
    sign=st.sampled_from(["", "+", "-"]),
    limit=st.sampled_from([0.0, 0.5, 2.0, 50.0]),
    unit=st.sampled_from(["", "%", "s"]),
)
def test_verdicts_agree_with_a_slow_evaluator(
    old: dict[int, tuple[float | None, float]],
    new: dict[int, tuple[float | None, float]],
    sign: str,
    limit: float,
    unit: str,
) -> None:
    text = f"order:{sign}{limit}{unit}"
    gone = [at for at, (value, _) in old.items() if value is not None and new.get(at, (None,))[0] is None]  # fmt: skip
    both = [at for at in new if at in old and None not in (old[at][0], new[at][0])]
    if not gone and not both:
        with pytest.raises(NoBaseline):
            verdict(text, curve(old), curve(new))
        return
    expected = bool(gone) or any(
        too_far(old[at][0] or 0.0, new[at][0] or 0.0, (old[at][1], new[at][1]), sign, limit, unit)
        for at in both
    )
    found = verdict(text, curve(old), curve(new))
    assert found.failed is expected
    assert exit_code_of_report(report().with_verdicts([found])) == int(expected)


def test_the_slow_evaluator_is_not_vacuous() -> None:
    assert too_far(0.0, 11.0, (3.0, 4.0), "", 2.0, "s")
    assert not too_far(0.0, 10.0, (3.0, 4.0), "", 2.0, "s")
    assert not too_far(0.0, 11.0, (3.0, 4.0), "-", 2.0, "s")


@pytest.mark.parametrize(
    ("codes", "code"), [((), 0), ((0, 0), 0), ((0, 1, 0), 1), ((1, 3, 0), 3), ((5, 1), 5), ((5, 70, 3), 70)]
)  # fmt: skip
def test_what_stopped_a_run_is_worse_than_a_failed_gate(codes: tuple[int, ...], code: int) -> None:
    assert worst_exit_code(codes) == code


@pytest.mark.parametrize("at_hand", [True, False])
def test_python_decides_changes_as_the_command_does(tmp_path: Path, at_hand: bool) -> None:
    """The earlier report may be a file, or at hand."""
    sizes = {"layers": 3, "seeds": 3, "variants": "SAN", "tokens": 6, "width": 8, "heads": 2}
    old = attncli.rank_collapse(**sizes)
    new = attncli.rank_collapse(**sizes, seed=7, init_scale=3.0)
    files = [str(report.save(tmp_path / name)) for report, name in ((old, "a.json"), (new, "b.json"))]  # fmt: skip
    fail_on, fail_if = "log10_residual[layer=-1]:0.1s", "log10_residual < -1e9"
    found = new.check(fail_if, baseline=old if at_hand else files[0], fail_on=fail_on, family_wise=0.9)  # fmt: skip
    told = attn("check", files[1], "--baseline", files[0], "--fail-on", fail_on, "--family-wise", "0.9", "--fail-if", fail_if, "--format", "json")  # fmt: skip
    theirs = [(each["condition"], each["failed"], each["text"]) for each in json.loads(told.out)["verdicts"]]  # fmt: skip
    assert [(each.condition, each.failed, each.text) for each in found.verdicts] == theirs
    assert (found.passed, told.code) == (False, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"baseline": "old.json"}, "`baseline` and `fail_on` go together"),
        ({"fail_on": "sink:1"}, "`baseline` and `fail_on` go together"),
        ({"baseline": 3, "fail_on": "sink:1"}, "`baseline` must be a text, not 3"),
        ({"baseline": "no.json", "fail_on": "sink:1"}, "there is no baseline no.json"),
        ({"baseline": "no.json", "fail_on": "sink"}, "cannot read the change 'sink'"),
        ({"baseline": "no.json", "fail_on": "sink:1", "family_wise": 0.1}, "`family_wise` corrects"),
    ],
)  # fmt: skip
def test_what_python_cannot_hold_a_report_against_is_named(
    given: dict[str, Any], said: str
) -> None:
    report = attncli.rank_collapse(layers=1, tokens=3, width=4, heads=1, seeds=1, variants="SAN")
    with pytest.raises(attncli.AttnError) as caught:
        report.check(**given)
    assert said in str(caught.value)


@pytest.mark.parametrize("text", ["order:p0", "order:p1", "order:-p5", "order:p1e9"])
def test_a_chance_lies_between_0_and_1(text: str) -> None:
    with pytest.raises(UsageError, match="a chance is between 0 and 1"):
        parse_allowed_change(text)
