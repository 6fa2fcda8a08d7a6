"""Residuals carried apart through model code: right below the float floor, and the same as subtraction above it."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from oracles import exact_bert
from oracles.forwards.tiny_models import FOR_ARBITRARY_PRECISION, TINY

from attncli.checkpoints.ablation import examine
from attncli.checkpoints.inputs.texts import ModelInput
from attncli.errors import InputError
from attncli.networks.variants import VARIANTS, Switches
from attncli.studies.model_runs import Subject, own_precision, run_text

torch.set_num_threads(1)

METRIC = "log10_residual"
NO_NORMS = Switches(skip=False, mlp=False, norms=False)
NORM_STAYS = Switches(skip=False, mlp=False, mlp_norm=True)
SWITCHES = {**VARIANTS, "SAN-norms": NO_NORMS, "SAN+mlp-norm": NORM_STAYS}


def curves(model: Any, inputs: Any, switches: Switches, exact: bool) -> np.ndarray[Any, Any]:
    """log10 r at states 0 … L."""
    body = model.base_model
    body.config.use_cache = False  # as every model is loaded
    with own_precision(body):
        anatomy = examine(body, inputs)
    text = ModelInput("text", "token ids", inputs, 0)
    found = run_text(Subject(body, anatomy, exact), text, {"one": switches}, [METRIC], lambda: None)
    (trajectory,) = found["one"].values()
    return np.array(trajectory.measured[METRIC])


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["SAN", "SAN+MLP", "SAN+MLP-noskip", "transformer"])
@pytest.mark.parametrize("name", FOR_ARBITRARY_PRECISION)
def test_equals_arbitrary_precision_at_every_layer(name: str, variant: str) -> None:
    model, inputs = FOR_ARBITRARY_PRECISION[name]()
    expected = np.array(exact_bert.log10_residuals(model, inputs, SWITCHES[variant]))
    found = curves(model, inputs, SWITCHES[variant], exact=True)
    assert np.abs(found / expected - 1.0).max() < 1e-5
    if name != "gpt2" and variant != "transformer":
        assert expected[-1] < -100  # far below what subtraction can see


COVERED = [
    "bert", "roberta", "electra", "distilbert", "albert", "albert-grouped", "gpt2", "gpt_neox", "llama", "mistral", "qwen2",
    "gemma3_text", "vit",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("variant", SWITCHES)
@pytest.mark.parametrize("name", [name for name in COVERED if name in TINY])
def test_equals_subtraction_where_that_has_digits(name: str, variant: str) -> None:
    model, inputs = TINY[name]()
    subtracted = curves(model, inputs, SWITCHES[variant], exact=False)
    found = curves(model, inputs, SWITCHES[variant], exact=True)
    resolved = subtracted > -10
    assert resolved[0]
    assert np.abs(found - subtracted)[resolved].max() < 1e-5
    assert np.isfinite(found).all()
    assert (found[~resolved] < -9.9).all()


@pytest.mark.parametrize("name", ["t5", "whisper", "xlnet", "gpt_neo"])
def test_what_is_not_exact_is_refused_by_name(name: str) -> None:
    model, inputs = TINY[name]()
    with pytest.raises(InputError, match="--exact"):
        curves(model, inputs, VARIANTS["SAN"], exact=True)


def test_attention_with_sinks_is_refused() -> None:
    torch.manual_seed(0)
    config = hf.GptOssConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=24,
        num_local_experts=2,
        num_experts_per_tok=1,
    )
    model = hf.GptOssModel(config).double().eval()
    model.set_experts_implementation("eager")
    with pytest.raises(InputError, match="rows sum to one"):
        curves(model, {"input_ids": torch.arange(5, 14)[None]}, VARIANTS["SAN+skip"], exact=True)


def test_attention_that_computes_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose eager function scales its logits once more is not what the rule computes."""
    from transformers.models.bert import modeling_bert

    usual = modeling_bert.eager_attention_forward

    def sharper(module: Any, query: Any, key: Any, value: Any, mask: Any, **how: Any) -> Any:
        return usual(module, query * 1.5, key, value, mask, **how)

    monkeypatch.setattr(modeling_bert, "eager_attention_forward", sharper)
    model, inputs = TINY["bert"]()
    with pytest.raises(InputError, match="does not understand the attention"):
        curves(model, inputs, VARIANTS["SAN"], exact=True)
