"""Gates in spreads over the same texts: the differences decide, aggregates go text by text, many are corrected for their number."""

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import attn

from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.errors import UsageError
from attncli.gates.baseline_changes import decide_baseline_gates, parse_allowed_change
from attncli.records import Report, Row, Verdict
from attncli.render import FORMATS
from attncli.reports.report_comparison import compare_reports

TEXTS = tuple("abcdefgh")


def report(*heads: Any, texts: tuple[str, ...] = TEXTS) -> Report:
    """A number for each head and text."""
    rows = tuple(
        summarize_values("sink", "1", [float(value) for value in values], "", layer=0, head=head)
        for head, values in enumerate(heads)
    )
    shown = [{"name": "text", "tokens": 9, "sha256": text} for text in texts]
    return Report("heads", "", rows, {}, {}, input={"texts": shown})


def decided(new: Report, old: Report, *texts: str, share: float | None = None) -> list[Verdict]:
    return decide_baseline_gates(
        new, old, [parse_allowed_change(text) for text in texts], "old.json", share
    )


CHANCE = np.random.default_rng(0)
BASE = CHANCE.normal(0.5, 0.2, 8)
"""Texts differ from one another far more than anything below moves them."""
SHIFTED = BASE + 0.05 + CHANCE.normal(0, 0.01, 8)


def test_a_shift_that_texts_hide_is_seen_text_by_text() -> None:
    old, new = report(BASE), report(SHIFTED)
    (verdict,) = decided(new, old, "sink:2s")
    differences = list(SHIFTED - BASE)
    wanted = statistics.mean(differences) / statistics.stdev(differences)
    assert verdict.failed
    assert f"({wanted:+.3g} standard deviations, paired, n = 8)" in verdict.text
    others = report(SHIFTED, texts=tuple("ijklmnop"))
    (verdict,) = decided(others, old, "sink:2s")
    assert (verdict.failed, "paired" in verdict.text) == (False, False)


def test_texts_are_found_by_what_they_are_not_by_their_order() -> None:
    swapped = report(SHIFTED[::-1], texts=TEXTS[::-1])
    assert decided(swapped, report(BASE), "sink:2s")[0].text == decided(report(SHIFTED), report(BASE), "sink:2s")[0].text  # fmt: skip


@pytest.mark.parametrize("texts", [("",) * 8, (*TEXTS[:7], "z"), (*TEXTS[:6], "a", "a")])
def test_what_may_not_be_the_same_texts_is_not_paired(texts: tuple[str, ...]) -> None:
    (verdict,) = decided(report(SHIFTED, texts=texts), report(BASE), "sink:2s")
    assert not verdict.failed


def test_rounding_alone_is_no_change() -> None:
    """The same on every text, so its own spread is nothing."""
    assert not decided(report(BASE * (1 + 3e-6)), report(BASE), "sink:2s")[0].failed
    assert decided(report(BASE * (1 + 1e-3)), report(BASE), "sink:2s")[0].failed


def test_a_mean_over_heads_is_taken_on_each_text() -> None:
    """Heads that move against each other leave the mean where it is."""
    wiggle = CHANCE.normal(0, 0.1, 8)
    old, new = report(BASE, BASE), report(BASE + wiggle, BASE - wiggle + 0.01)
    each, mean, maximum = decided(new, old, "sink:2s", "mean(sink):+2s", "max(sink):9")
    assert (each.failed, mean.failed, maximum.failed) == (False, True, False)
    assert mean.text.startswith("beyond the limit: ")
    (fallen,) = decided(new, old, "mean(sink):-2s")
    assert not fallen.failed


def test_without_the_numbers_of_each_text_a_mean_has_no_spread() -> None:
    old = Report("heads", "", (Row("sink", 1.0, "1", spread=0.1, n=4),), {}, {})
    with pytest.raises(UsageError, match="needs standard deviations"):
        decided(Report("heads", "", (Row("sink", 1.5, "1", spread=0.1, n=4),), {}, {}), old, "mean(sink):2s")  # fmt: skip
    assert decided(old, old, "mean(sink):1")[0].failed is False


@pytest.mark.parametrize("text", ["any(sink):2s", "all(sink):1", "mean(sink:2s", "mean sink):2s"])
def test_aggregates_that_make_no_number(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the change"):
        parse_allowed_change(text)


def noisy(heads: int, chance: np.random.Generator) -> tuple[Report, Report]:
    """Nothing has changed, but every text is measured with noise of its own."""
    base = chance.normal(0.5, 0.2, (heads, 4))
    old, new = (base + chance.normal(0, 0.05, base.shape) for _ in range(2))
    return report(*old, texts=TEXTS[:4]), report(*new, texts=TEXTS[:4])


@pytest.mark.slow
def test_many_questions_raise_few_false_alarms() -> None:
    """Of 100 pairs of reports with 60 numbers each: most have one beyond 2 spreads, and about 5 % fail in a family."""
    chance = np.random.default_rng(1)
    pairs = [noisy(60, chance) for _ in range(100)]
    plain = sum(decided(new, old, "sink:2s")[0].failed for old, new in pairs)
    family = sum(decided(new, old, "sink:2s", share=0.05)[0].failed for old, new in pairs)
    assert plain > 50
    assert family <= 12  # 5 expected, and 12 or more once in two hundred


def test_a_family_spans_all_gates_and_one_side_is_half() -> None:
    old, new = report(BASE, BASE), report(SHIFTED, BASE + CHANCE.normal(0, 0.01, 8))
    both = decided(new, old, "sink[head=0]:+2s", "sink[head=1]:2s", share=0.05)
    assert [verdict.failed for verdict in both] == [True, False]
    strict = decided(new, old, "sink[head=0]:2s", share=1e-9)
    assert not strict[0].failed
    assert strict[0].text.endswith("1 more beyond the limit may be noise among all gates")


def test_compare_asks_the_same(tmp_path: Path) -> None:
    old, new = report(BASE, BASE), report(SHIFTED, BASE)
    found = compare_reports(old, new, ("a", "b"), 5, 0.05)
    assert (
        "1 of 2 numbers changed, 1 by more than noise (p ≤ 0.05 among 2 numbers); "
        in found.headline
    )
    (chance, same) = (row.value for row in found.rows if row.metric == "chance")
    assert chance is not None
    assert (chance < 0.05, same) == (True, 1.0)
    assert not any(row.metric == "chance" for row in compare_reports(old, new, ("a", "b"), 5).rows)
    for name, one in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(FORMATS["json"](one))
    paths = [str(tmp_path / "old.json"), str(tmp_path / "new.json")]
    shown = json.loads(attn("compare", *paths, "--family-wise", ".05", "--format", "json").out)
    assert shown["rows"][-1]["value"] == 1.0
    assert attn("compare", *paths, "--family-wise", "2").code == 2
    gate = ("--baseline", paths[0], "--fail-on", "mean(sink):2s")
    assert attn("check", paths[1], *gate, "--family-wise", ".05").code == 1
    assert attn("check", paths[1], "--family-wise", ".05").code == 2
    idle = attn(
        "check", paths[1], "--baseline", paths[0], "--fail-on", "sink:5%", "--family-wise", ".05"
    )
    assert (idle.code, "limits by chance or in standard deviations" in idle.err) == (2, True)


def test_a_check_of_a_file_is_corrected_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text(FORMATS["json"](report(BASE)))
    Path("new.json").write_text(FORMATS["json"](report(SHIFTED)))
    check = '[checks.moved]\nreport = "new.json"\nbaseline = "old.json"\nfail-on = ["sink:2s"]\n'
    for more, code in (("", 1), ("family-wise = 0.05", 1), ("family-wise = 1e-9", 0), ("family-wise = 2", 2)):  # fmt: skip
        Path("attn.toml").write_text(f"{check}{more}\n")
        assert attn("ci", "--config", "attn.toml").code == code
