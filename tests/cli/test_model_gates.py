"""Gates on models: a collapsed checkpoint, built here, fails; a healthy one passes; a sweep finds where it happened."""

from pathlib import Path

import pytest
import torch
from commands import attn
from small_checkpoints import model_of

GATE = "log10_residual[transformer, layer=-1] < -3"
TOKENS = ("--token-ids", "1,5,9,13,2,7", "--variants", "transformer")


def checkpoint(folder: Path, collapse: float) -> str:
    """A small BERT whose embeddings are shrunk so far towards their mean; the file says nothing about it."""
    model = model_of("BertModel")
    with torch.no_grad():
        for name in ("word_embeddings", "position_embeddings"):
            weight = model.get_submodule(f"embeddings.{name}").weight
            mean = weight.mean(dim=0, keepdim=True)
            weight.copy_(mean + (1 - collapse) * (weight - mean))
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.slow
def test_a_collapsed_model_fails_the_gate_and_a_healthy_one_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, collapse in (("run/checkpoint-1", 0.0), ("run/checkpoint-2", 1 - 1e-6)):
        checkpoint(tmp_path / name, collapse)
    sweep = ("sweep", "rank-collapse", "--glob", "run/*", *TOKENS)
    outcome = attn(*sweep, "--fail-if", GATE)
    assert outcome.code == 1
    assert ", falls, " in outcome.out.splitlines()[0]
    healthy, collapsed = sorted(Path("attn-sweep").iterdir())
    assert attn("check", str(healthy), "--fail-if", GATE).code == 0
    gated = attn("check", str(collapsed), "--fail-if", GATE)
    assert gated.code == 1
    assert gated.out.splitlines()[-1].startswith(f"FAIL  {GATE}")
    compared = attn("compare", str(healthy), str(collapsed))
    assert compared.out.startswith("The weights differ. ")


@pytest.mark.slow
def test_reports_on_other_texts_still_speak_of_the_same_heads(tmp_path: Path) -> None:
    """What stands beside a number (nulls, where a maximum lies, roles) moves with the text; the places do not."""
    folder = checkpoint(tmp_path / "model", 0.0)
    paths = [str(tmp_path / f"{name}.json") for name in "ab"]
    for path, ids in zip(paths, ("1,5,9,13,2,7", "4,4,8,1,3,10"), strict=True):
        assert attn("inspect-model", folder, "--token-ids", ids, "-q", "-o", path).code == 0
    compared = attn("compare", *paths)
    assert compared.out.startswith("The weights are the same. ")
    assert "alone" not in compared.err
    shown = attn("check", paths[0], "--fail-if", "sink[layer=-1] > 2")
    assert "holds for none of 2 values; closest: layer 1, head " in shown.out
