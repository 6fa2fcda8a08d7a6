"""Weights in memory: to the last bit what is read of them from a checkpoint."""

from pathlib import Path

import pytest
import torch
from family_models import MODELS, model_of
from torch import nn

import attncli as attn
from attncli.errors import UsageError
from attncli.models.quiet_libraries import silence_libraries

FAST = ("bert", "vit", "gpt2", "mixtral")
KINDS = [kind if kind in FAST else pytest.param(kind, marks=pytest.mark.slow) for kind in MODELS]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["float64", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_they_are_those_of_the_checkpoint(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Of every family, whatever names a checkpoint has for its tensors."""
    model = model_of(kind).to(dtype).train()
    with silence_libraries():
        model.save_pretrained(tmp_path)
    before = {name: id(tensor) for name, tensor in model.named_parameters()}
    live, saved = (attn.inspect_weights(each) for each in (model, str(tmp_path)))
    assert live.rows == saved.rows
    assert live.headline == saved.headline
    assert live.findings == saved.findings
    assert live.source["weight_sha256_of_tensors_read"] == saved.source["weight_sha256_of_tensors_read"]  # fmt: skip
    assert live.source["dtype_of_file"] == saved.source["dtype_of_file"]
    assert {name: id(tensor) for name, tensor in model.named_parameters()} == before
    assert model.training
    counts = [attn.count_paths(each).rows for each in (model, str(tmp_path))]
    assert counts[0] == counts[1]


def test_random_weights_come_from_their_seed() -> None:
    first, again, other = (attn.inspect_weights("random:gpt2?layers=1&width=16&heads=2", seed=seed) for seed in (0, 0, 1))  # fmt: skip
    assert first.rows == again.rows
    assert first.rows != other.rows


def test_what_has_no_family_or_is_to_run_is_refused() -> None:
    module = nn.MultiheadAttention(8, 2)
    with pytest.raises(UsageError, match="a MultiheadAttention is no model that is understood"):
        attn.inspect_weights(module)
    with pytest.raises(TypeError, match=r"unknown keyword of inspect_weights.*inputs"):
        attn.inspect_weights(model_of("gpt2"), inputs=torch.ones(1, 3).long())
