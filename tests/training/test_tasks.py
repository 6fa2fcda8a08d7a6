"""`attn reproduce … --watch-training N`: the trainings that attn makes itself, watched as any other."""

import json
from pathlib import Path

import pytest
import torch
from commands import attn

from attncli.commands.reproduce.circle.circle_network import (
    BatchedCircleNetworks,
    keep_states_without_dropout,
)
from attncli.commands.reproduce.circle.network_design import NetworkDesign
from attncli.commands.reproduce.circle.network_for_training_monitor import (
    FirstCircle,
    build_arc_training_pairs,
)
from attncli.networks.ablation_variants import VARIANTS
from attncli.reports.json_report_reading import read_report

CIRCLE = ("reproduce", "circle", "--width", "8", "--variants", "SAN", "--seeds", "2", "--train-steps", "6", "--recurrence", "2")  # fmt: skip
SORT = ("reproduce", "sort", "--layers", "1", "--heads", "2", "--width", "8", "--seeds", "1", "--train-steps", "6", "--paths-per-sum", "2")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "name"), [(CIRCLE, "circle-SAN-width8-attn"), (SORT, "sort-seed0-attn")]
)
def test_a_watched_training_is_the_same_training(line: tuple[str, ...], name: str, tmp_path: Path) -> None:  # fmt: skip
    plain = attn(*line, "--format", "json")
    kept = attn(*line, "--format", "json", "--save-training", str(tmp_path), "--watch-training", "2")  # fmt: skip
    assert kept.code == 0, kept.err
    assert json.loads(kept.out)["rows"] == json.loads(plain.out)["rows"]
    history = sorted((tmp_path / name).iterdir())
    assert [path.name for path in history] == [f"step-{step:06d}.json" for step in (0, 2, 4, 6)]
    report = read_report(str(history[-1]))
    assert {row.metric for row in report.rows} >= {"max_logit", "qk_clip", "min_entropy", "entropy_collapse", "max_logit_growth"}  # fmt: skip
    assert all(row.value is not None for row in report.rows if row.metric == "max_logit")


def test_the_first_network_is_seen_as_it_is() -> None:
    networks = BatchedCircleNetworks(NetworkDesign(8, VARIANTS["transformer"]), [3, 4])
    view, given = FirstCircle(networks), build_arc_training_pairs(networks)
    with torch.no_grad():
        own = view(**given)
        every = networks(given["pairs"].expand(2, -1, -1, -1), keep_states_without_dropout)
    assert torch.allclose(own, every[0], rtol=1e-6, atol=1e-7)
    assert not torch.allclose(own, every[1], atol=1e-3)
    assert "mix" not in vars(networks)


def test_reports_need_a_place(tmp_path: Path) -> None:
    outcome = attn(*CIRCLE, "--watch-training", "2")
    assert outcome.code == 2
    assert "--watch-training saves its reports next to the trainings: add --save-training." in outcome.err  # fmt: skip
    assert attn(*CIRCLE, "--watch-training", "0", "--save-training", str(tmp_path / "x")).code == 2
    assert not (tmp_path / "x").exists()
