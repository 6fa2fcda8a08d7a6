"""Gates that can match nothing are refused before the work: before a model is loaded, a network made, an item run."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from commands import ONE, attn, files_in

TINY = "random:bert?layers=2&width=16&heads=2"
SWEEP = ("sweep", "rank-collapse", "--model", "a-1", "--model", "a-2", "--into", "out")


class Worked(Exception):
    """The work began."""


@pytest.fixture(autouse=True)
def no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever would begin the work fails."""
    monkeypatch.chdir(tmp_path)
    places = (
        "attncli.analysis.load_and_verify_model.load_model",
        "attncli.commands.inspect_model.run.load_model",
        "attncli.analysis.rank_collapse.network_collapse.run_networks_in_all_variants",
        "attncli.analysis.rank_collapse.size_sweep.run_networks_in_all_variants",
        "attncli.commands.utilities.sweep.command.run_swept_models",
    )
    for place in places:  # all before the first is patched: one imports from another
        importlib.import_module(place.rpartition(".")[0])
    try:
        for place in places:
            mock.patch(place, side_effect=Worked).start()
        yield
    finally:  # also where a place is no longer there: other tests do work
        mock.patch.stopall()


@pytest.mark.parametrize(
    ("line", "gate", "said"),
    [
        (("rank-collapse",), "log10_residual[SAM] < -3", "matches nothing at variant=SAM: there are SAN, SAN+MLP"),
        (("rank-collapse", "--layers", "6"), "log10_residual[layer=7] < -3", "matches nothing at layer=7: there are 0 … 6"),
        (("rank-collapse", "--sweep", "tokens=4:8"), "log10_residual[tokens=16] < -3", "matches nothing at tokens=16"),
        (("rank-collapse", TINY), "log10_residual[SAN+skop] < -3", "matches nothing at variant=SAN+skop"),
        (("rank-collapse", TINY), "log10_residual[SAN@random] < -3", "matches nothing at variant=SAN@random"),
        (("inspect-model", TINY), "mean(snk) > 0.5", "unknown metric in the gate 'snk': did you mean 'sink'?"),
        (("inspect-model", TINY), "mean(s1) > 0.5", "needs s1, which is not measured here: add --metric s1."),
        (("attribute", TINY, "--token", "1"), "sink > 1", "unknown metric in the gate 'sink'"),
        (("paths", TINY, "--by", "head"), "log10_residual < 1", "unknown metric in the gate 'log10_residual'"),
        (("paths", TINY, "--sample", "3"), "head_output_share < 1", "unknown metric in the gate"),
        ((*SWEEP, "--show", "log10_residual"), "order < 1", "unknown metric in the gate 'order'"),
        (SWEEP, "log10_residual[step=3] < 1", "matches nothing at step=3: there are 1, 2"),
        (SWEEP, "log10_residual[item=b-1] < 1", "matches nothing at item=b-1: there are a-1, a-2"),
    ],
)  # fmt: skip
def test_what_can_be_known_before_is_said_before(line: tuple[str, ...], gate: str, said: str) -> None:  # fmt: skip
    outcome = attn(*line, "--fail-if", gate)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


@pytest.mark.parametrize(
    ("line", "gate"),
    [
        (("rank-collapse",), "log10_residual[SAN, layer=-1] < -3"),
        (("rank-collapse", "--layers", "6"), "mean(order[SAN, layer=2:6]) < -3"),
        (("rank-collapse", "--sweep", "tokens=4:8"), "log10_residual[tokens=8, layer=-1] < -3"),
        (("rank-collapse", TINY, "--with-random-init"), "log10_residual[SAN@random] < -3"),
        (("rank-collapse", TINY, "--no-norms", "--variants", "SAN"), "order > 1"),
        (("inspect-model", TINY, "--metric", "s1"), "mean(s1[layer.head=0.1]) > 0.5"),
        (("attribute", TINY, "--token", "1"), "rollout_lift > 9"),
        (("paths", TINY, "--by", "head"), "head_output_share < 1"),
        (("paths", TINY), "stable_rank[length=2] < 1"),
        (SWEEP, "log10_residual[step=2:] < 1"),
    ],
)
def test_the_work_begins_where_a_gate_may_match(line: tuple[str, ...], gate: str) -> None:
    outcome = attn(*line, "--fail-if", gate)
    assert (outcome.code, "Worked" in outcome.err) == (70, True), outcome.err


@pytest.mark.slow
@pytest.mark.real_runs
@pytest.mark.parametrize("gate", ["stable_rank < 1", "log10_residual[transformer] < -3"])
def test_a_sweep_says_after_its_first_item_what_only_that_can_show(gate: str) -> None:
    mock.patch.stopall()
    for step in (1, 2):
        attn("generate", "network", *ONE[:-2], "-o", f"net-{step}.safetensors")
    sweep = ("sweep", "rank-collapse", "--glob", "net-*", "--variants", "SAN", "--into", "out")
    outcome = attn(*sweep, "--fail-if", gate)
    assert (outcome.code, outcome.out) == (2, "")
    assert len(files_in(Path("out"))) == 1
