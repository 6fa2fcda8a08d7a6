"""`compare`: sorted by spreads, nothing dropped in silence, weights by their hash."""

import math
from pathlib import Path

import pytest
from commands import attn
from hypothesis import given
from reports import reports

from attncli.records import Definition, Report, Row
from attncli.render import FORMATS
from attncli.reports.json_report_reading import parse_json_report
from attncli.reports.report_comparison import compare_reports

NAMES = ("a.json", "b.json")


def made(*rows: Row, **parts: object) -> Report:
    return Report("example", "", rows, {}, parts.pop("source", {}), **parts)  # type: ignore[arg-type]


def sink(head: int, value: float | None, spread: float | None = None) -> Row:
    note = "n/a: gone" if value is None else None
    return Row("sink", value, "1", layer=0, head=head, spread=spread, note=note)


def largest(report: Report, metric: str = "change") -> list[int | None]:
    """The heads that the view shows, in its order."""
    return [row.head for row in report.rows if row.metric == metric and row.keys.get("among")]


def test_changes_are_sorted_by_spreads_then_by_size() -> None:
    old = made(sink(0, 1.0, 1.0), sink(1, 1.0, 0.1), sink(2, 1.0), sink(3, 1.0), sink(4, 1.0, 0.0))
    new = made(sink(0, 3.0, 1.0), sink(1, 2.0, 0.1), sink(2, 2.0), sink(3, 9.0), sink(4, 1.5, 0.0))
    found = compare_reports(old, new, NAMES, top=9)
    assert largest(found) == [4, 1, 0, 3, 2]
    spreads = {row.head: row for row in found.rows if row.metric == "change_in_spreads"}
    assert spreads[0].value == pytest.approx(2 / math.sqrt(2))
    assert spreads[1].value == pytest.approx(1 / math.sqrt(0.02))
    assert (spreads[2].value, spreads[2].note) == (
        None,
        "n/a: no standard deviation in both reports",
    )
    assert (spreads[4].value, spreads[4].note) == (None, "the standard deviations are 0")
    assert found.headline == (
        "No hash of the weights. 5 of 5 numbers changed, 2 by more than 2 standard deviations; "
        "largest: sink, layer 0, head 4: 1 → 1.5 (+0.5)."
    )
    assert largest(compare_reports(old, new, NAMES, top=2)) == [4, 1]


def test_what_one_report_lacks_is_said() -> None:
    found = compare_reports(
        made(*(sink(head, 1.0) for head in range(5))), made(sink(4, 1.0)), NAMES, 9
    )
    assert found.headline.endswith("Every number that both reports have is equal (1).")
    assert found.warnings == (
        "in a.json alone: sink, layer 0, head 0; sink, layer 0, head 1; "
        "sink, layer 0, head 2 and 1 more",
    )
    notes = {row.head: row.note for row in found.rows if row.metric == "change"}
    assert notes == {0: "not in b.json", 1: "not in b.json", 2: "not in b.json", 3: "not in b.json", 4: None}  # fmt: skip


def test_a_null_on_one_side_is_a_loss_and_on_both_is_none() -> None:
    found = compare_reports(
        made(sink(0, 1.0), sink(1, None)), made(sink(0, None), sink(1, None)), NAMES, 9
    )
    changes = [row for row in found.rows if row.metric == "change"]
    assert [(row.head, row.is_missing, row.note) for row in changes] == [
        (0, True, "null in b.json: n/a: gone"),
        (1, False, "n/a: gone"),
    ]


def test_a_change_beyond_the_largest_number_is_a_null_that_says_so() -> None:
    found = compare_reports(made(sink(0, -1e308)), made(sink(0, 1e308)), NAMES, 9)
    assert parse_json_report(FORMATS["json"](found)) == found
    notes = {row.metric: (row.value, row.note) for row in found.rows}
    assert (
        notes["change"]
        == notes["relative_change"]
        == (None, "beyond the largest number of float64")
    )


@pytest.mark.parametrize(
    ("hashes", "said"),
    [(("a", "a"), "The weights are the same"), (("a", "b"), "The weights differ"), (("a", None), "No hash of the weights")],
)  # fmt: skip
def test_weights_are_told_by_their_hash(hashes: tuple[str, str | None], said: str) -> None:
    old, new = (made(sink(0, 1.0), source={"weight_sha256": one}) for one in hashes)
    assert compare_reports(old, new, NAMES, 9).headline.startswith(f"{said}. ")


def test_other_inputs_and_meanings_are_warned_of() -> None:
    old = made(sink(0, 1.0), input={"tokens": 4}, seeds=(0,))
    new = Report("other", "", old.rows, {"sink": Definition("1", "new")}, {}, {"tokens": 5}, (1,))
    warned = compare_reports(old, new, NAMES, 9).warnings
    assert warned == tuple(f"the reports differ in their {what}" for what in ("study", "input", "seeds"))  # fmt: skip


@pytest.mark.slow
@given(old=reports, new=reports)
def test_any_two_reports_compare_and_the_result_is_a_report(old: Report, new: Report) -> None:
    found = compare_reports(old, new, NAMES, 5)
    assert parse_json_report(FORMATS["json"](found)) == found
    assert len(found.rows) // 4 >= max(len(old.rows), len(new.rows))
    assert not [row for row in compare_reports(old, old, NAMES, 5).rows if row.metric == "change" and row.value]  # fmt: skip


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{name}.json") for name in "ab"]
    for path, scale in zip(paths, ("1", "0.5"), strict=True):
        sizes = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2", "-q")
        attn("rank-collapse", *sizes, "--init-scale", scale, "-o", path)
    outcome = attn("compare", *paths, "--top", "3")
    assert outcome.code == 0
    assert "The 3 largest of" in outcome.out
    assert len(outcome.out.splitlines()) == 7
    gate = ("--fail-if", "change_in_spreads[measured=log10_residual, variant=SAN] < -2")
    assert attn("compare", *paths, *gate).code == 1
    assert attn("compare", paths[0], paths[0], *gate).code == 0
    assert attn("compare", *paths, "--top", "-1").code == 2
    assert attn("compare", paths[0], "nothing.json").code == 3


@pytest.mark.slow
def test_models_are_measured_and_compared(tmp_path: Path) -> None:
    """Here networks in files, which need no torch."""
    paths = [str(tmp_path / f"{name}.safetensors") for name in "ab"]
    for path, seed in zip(paths, "01", strict=True):
        sizes = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2")
        assert attn("generate", "network", *sizes, "--seed", seed, "-o", path).code == 0
    by = ("--by", "rank-collapse --variants SAN")
    assert attn("compare", *paths, *by).out.startswith("The weights differ. ")
    same = attn("compare", paths[0], paths[0], *by).out
    assert same.startswith("The weights are the same. Every number")
    outcome = attn("compare", paths[0], "gone.safetensors", *by)
    assert (outcome.code, "there is no file gone.safetensors" in outcome.err) == (3, True)
    outcome = attn("compare", *paths, "--by", "approximate")
    assert (outcome.code, "unknown command of --by" in outcome.err) == (2, True)


def test_changes_without_spreads_are_sorted_across_unlike_units() -> None:
    """A thousand-fold metric that hardly moves comes after a share that is halved, and the title says by what."""

    def one_text(sink: float, lost: float, activation: float) -> Report:
        return made(
            Row("max_activation", activation, "1", layer=0),
            Row("sink", sink, "share", layer=0),
            Row("log10_residual", lost, "log10", layer=0),
            Row("log10_residual", -50.0, "log10", layer=1),
        )

    found = compare_reports(one_text(0.8, -1.0, 2000.0), one_text(0.4, -6.0, 2040.0), NAMES, top=9)
    assert found.views[0].title == (
        "The 3 largest of 3 changes, relative to the largest number of each metric"
    )
    assert "change_in_spreads" not in found.views[0].metrics[-1]
    shares = {
        row.keys["measured"]: row.value for row in found.rows
        if row.metric == "relative_change" and row.keys.get("among")
    }  # fmt: skip
    assert shares == pytest.approx({"sink": -0.5, "log10_residual": -0.1, "max_activation": 40 / 2040})  # fmt: skip
    assert list(shares) == ["sink", "log10_residual", "max_activation"]
    assert found.headline.endswith("largest: sink, layer 0: 0.8 → 0.4 (-0.4, -0.5 of the metric's largest).")  # fmt: skip


def test_the_title_says_where_only_some_have_spreads() -> None:
    old, new = made(sink(0, 1.0, 0.1), sink(1, 1.0)), made(sink(0, 2.0, 0.1), sink(1, 5.0))
    (view,) = compare_reports(old, new, NAMES, top=9).views
    assert view.title.endswith("by standard deviations of both reports, then relative to the largest number of each metric")  # fmt: skip
    assert view.metrics[-2:] == ("change_in_spreads", "relative_change")
    (view,) = compare_reports(old, new, NAMES, top=1).views
    assert view.title.endswith("changes, by standard deviations of both reports")


@pytest.mark.slow
@given(old=reports, new=reports)
def test_no_order_depends_on_the_unit_a_metric_is_written_in(old: Report, new: Report) -> None:
    """Multiplying a metric by a power of two in both reports moves nothing in the table of those without spreads."""

    def bare(report: Report, factor: float) -> Report:
        rows = [
            Row(row.metric, None if row.value is None else (row.value / 1e200) * (factor if row.metric == "order" else 1.0), "1", note=row.note, layer=row.layer, head=row.head)
            for row in report.rows
        ]  # fmt: skip
        return made(*rows)

    plain = compare_reports(bare(old, 1.0), bare(new, 1.0), NAMES, top=99)
    scaled = compare_reports(bare(old, 1024.0), bare(new, 1024.0), NAMES, top=99)
    shares = [
        [row.value for row in found.rows if row.metric == "relative_change"]
        for found in (plain, scaled)
    ]
    assert [abs(value or 0.0) for value in shares[0]] == pytest.approx(
        [abs(value or 0.0) for value in shares[1]]
    )
