"""Gates by chance: as often a false alarm as they say, whatever the number of texts and values, and against scipy's own tests."""

import json
import re
from dataclasses import replace
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

CHANCE = np.random.default_rng(0)
OLD = CHANCE.normal(0.5, 0.2, (5, 9))
"""Five heads on nine texts."""
NEW = OLD + CHANCE.normal([[0.0], [0.02], [0.05], [-0.05], [0.3]], 0.05, OLD.shape)


def report(heads: Any, texts: str = "text", take: str = "mean") -> Report:
    """A number for each head and text; reports of equally named texts are paired."""
    rows = tuple(
        summarize_values(
            "sink", "1", [float(each) for each in values], "", take=take, layer=0, head=head
        )
        for head, values in enumerate(heads)
    )
    shown = [{"sha256": f"{texts} {place}"} for place in range(len(heads[0]))]
    return Report("heads", "", rows, {}, {}, input={"texts": shown})


def decided(text: str, new: Report, old: Report, share: float | None = None) -> Verdict:
    (verdict,) = decide_baseline_gates(new, old, [parse_allowed_change(text)], "old.json", share)
    return verdict


def chance_in(verdict: Verdict) -> float:
    found = re.search(r"p = (\S+?)[, ]", verdict.text)
    assert found is not None, verdict.text
    return float(found[1])


@pytest.mark.parametrize("way", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("take", ["mean", "max"])
def test_the_chance_is_scipys(way: str, paired: bool, take: str) -> None:
    """Of the mean, also where the metric shows its largest text; the least likely value, times the number of values."""
    stats = pytest.importorskip("scipy.stats")
    new, old = report(NEW, take=take), report(OLD, "text" if paired else "other", take)
    test = stats.ttest_rel if paired else stats.ttest_ind
    more = {} if paired else {"equal_var": False}
    theirs = test(NEW, OLD, axis=1, alternative=way, **more).pvalue
    sign = {"two-sided": "", "less": "-", "greater": "+"}[way]
    verdict = decided(f"sink:{sign}p.05", new, old)
    assert chance_in(verdict) == float(f"{min(1.0, 5 * theirs.min()):.2g}")
    assert verdict.failed is bool(5 * theirs.min() <= 0.05)
    said = ", paired, n = 9)" if paired else ", n = 9 and 9)"
    assert verdict.text.endswith(f" among 5 values{said}")


def test_each_value_counts_among_all_that_the_gate_covers() -> None:
    """A head that fails alone passes among many that nothing has moved."""
    still = CHANCE.normal(0.5, 0.2, (60, 9))
    noise = still + CHANCE.normal(0, 0.05, still.shape)
    one = OLD[:1] + 0.04 + 0.04 * np.linspace(-1.5, 1.5, 9)
    old, new = np.vstack([OLD[:1], still]), np.vstack([one, noise])
    assert decided("sink[head=0]:p.05", report(new), report(old)).failed
    assert not decided("sink:p.05", report(new), report(old)).failed


def alarms(gate: str, texts: int, paired: bool, runs: int, chance: np.random.Generator) -> float:
    """The share of pairs of reports on nothing but noise that the gate fails."""
    failed = 0
    for _ in range(runs):
        old, new = (chance.normal(0.5, 0.2, (20, texts)) for _ in range(2))
        verdict = decided(gate, report(new), report(old, "text" if paired else "other"))
        failed += verdict.failed
    return failed / runs


@pytest.mark.slow
@pytest.mark.parametrize("texts", [2, 3, 5, 16])
@pytest.mark.parametrize("paired", [True, False])
def test_noise_fails_a_gate_by_chance_as_often_as_it_says(texts: int, paired: bool) -> None:
    """200 pairs of reports with 20 values: .2 would be 40 alarms, and 56 or more of them come once in two hundred times."""
    seeded = np.random.default_rng(texts)
    assert alarms("sink:p.2", texts, paired, 200, seeded) <= 0.28
    few = alarms("sink:2s", texts, paired, 60, seeded)
    assert few > 0.5 if texts == 2 else few < 0.05 or texts < 16


def test_few_moved_heads_are_found_among_many() -> None:
    chance = np.random.default_rng(3)
    old = chance.normal(0.5, 0.2, (60, 16))
    new = old + chance.normal(0, 0.03, old.shape)
    new[7] += 0.06
    verdict = decided("sink:p.05", report(new), report(old))
    assert verdict.text.startswith("1 of 60 values beyond noise; farthest: layer 0, head 7: ")
    assert not decided("sink:2s", report(new), report(old)).text.startswith("0 of 60")
    assert not decided("sink:2s", report(new), report(old, "other")).failed, "blind to it, unpaired"


def test_rounding_is_no_change_over_however_many_texts() -> None:
    old = CHANCE.normal(0.5, 0.2, (1, 900))
    assert not decided("sink:p.05", report(old * (1 + 3e-6)), report(old)).failed
    assert decided("sink:p.05", report(old * (1 + 1e-3)), report(old)).failed


@pytest.mark.parametrize("text", ["sink:p.05", "mean(sink):p.05"])
def test_what_was_measured_once_has_no_chance(text: str) -> None:
    """But where nothing moved, nothing needs to be asked."""
    one, other = (Report("heads", "", (Row("sink", value, "1"),), {}, {}) for value in (1.0, 2.0))
    with pytest.raises(UsageError, match="needs standard deviations"):
        decided(text, one, other)
    assert not decided(text, one, one).failed


@pytest.mark.parametrize(
    ("gate", "texts", "paired", "said"),
    [
        ("sink:2s", 3, True, True),
        ("sink:2s", 4, False, True),
        ("sink[head=0]:-2s", 4, False, True),
        ("sink[head=0]:2s", 9, True, False),
        ("sink:2s", 9, False, False),
        ("sink:0s", 9, False, True),
        ("sink:p.05", 2, True, False),
    ],
)
def test_a_size_that_noise_reaches_is_called_one(gate: str, texts: int, paired: bool, said: bool) -> None:  # fmt: skip
    old = report(OLD[:, :texts], "text" if paired else "other")
    verdict = decided(gate, report(NEW[:, :texts]), old)
    assert ("; noise alone can reach " in verdict.text) is said
    assert "noise alone" not in decided(gate, report(NEW[:, :texts]), old, 0.05).text


def test_several_gates_share_a_family() -> None:
    """Two gates of .05 each; the family of both is asked too, and `family_wise` takes limits by chance alone."""
    old, new = report(OLD), report(NEW)
    assert decided("sink:p.05", new, old, 0.05).failed
    verdict = decided("sink:p.05", new, old, 1e-12)
    assert (verdict.failed, verdict.text.endswith("may be noise among all gates")) == (False, True)


def test_command_and_python_read_limits_by_chance(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("old.json", "new.json")]
    for path, heads in zip(paths, (OLD, NEW), strict=True):
        Path(path).write_text(FORMATS["json"](report(heads)))
    old, new = paths
    outcome = attn("check", new, "--baseline", old, "--fail-on", "sink:p.05", "--format", "json")
    (verdict,) = json.loads(outcome.out)["verdicts"]
    assert (outcome.code, verdict["condition"], verdict["failed"]) == (1, "sink:p.05", True)
    assert attn("check", old, "--baseline", old, "--fail-on", "sink:p.05").code == 0
    assert attn("check", new, "--baseline", old, "--fail-on", "sink:p.05", "--family-wise", ".05").code == 1  # fmt: skip


@pytest.mark.parametrize("seeds", [(0,), (1,)])
@pytest.mark.parametrize("texts", ["text", "other"])
def test_what_is_not_measured_on_texts_is_paired_by_its_draws(texts: str, seeds: tuple[int, ...]) -> None:  # fmt: skip
    """As many draws as texts, or fewer; texts in another order leave the draws where they are."""
    old, new = (replace(report(heads), input={**report(heads).input, "not_on_texts": ["sink"]}, seeds=(0,)) for heads in (OLD, NEW))  # fmt: skip
    shown = [{"sha256": f"{texts} {place}"} for place in reversed(range(4))]
    new = replace(new, input={**new.input, "texts": shown}, seeds=seeds)
    found = decided("sink:p.05", new, old)
    assert (", paired, n = 9)" in found.text) is (seeds == (0,))
    assert (", n = 9 and 9)" in found.text) is (seeds == (1,))


@pytest.mark.parametrize("gate", ["sink:p.05", "sink:2s", "mean(sink):-p.05", "sink:5%"])
def test_numbers_whose_sum_no_float_holds_are_judged(gate: str) -> None:
    huge = np.array([[1.7e308, 1.5e308, 1.6e308, 1.4e308], [1.0, 2.0, 3.0, 5e-324]])
    old, new = (
        Report("heads", "", tuple(Row("sink", float(row[0]), "1", layer=0, head=head, spread=1.0, n=4, each=tuple(map(float, row)))
        for head, row in enumerate(rows)), {}, {}, seeds=(0, 1, 2, 3))
        for rows in (huge, huge[:, ::-1])
    )  # fmt: skip
    assert decided(gate, new, old).text
