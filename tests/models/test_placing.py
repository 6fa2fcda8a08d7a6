"""Models that lie on several places: the same numbers where each part is fetched by its own call, else a refusal."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from commands import attn
from small_checkpoints import saved
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel

from attncli.errors import InputError, UsageError
from attncli.models.loading import checkpoints
from attncli.models.loading.tensor_parallel import (
    refuse_plan_splitting_heads,
    require_plan_splitting_blocks,
)

PLACES = {"transformer.wte": "cpu", "transformer.wpe": "cpu", "transformer.h.0": "cpu",
          "transformer.h.1": "disk", "transformer.ln_f": "cpu", "lm_head": "cpu"}  # fmt: skip
"""Of a GPT-2; no second device is needed for a block that is fetched when it runs."""

WORDS = ("--random-tokens", "8", "--samples", "2", "--format", "json", "-q")


@pytest.fixture
def model(tmp_path: Path) -> str:
    saved("GPT2LMHeadModel", tmp_path / "model")
    return str(tmp_path / "model")


def spread(places: Mapping[str, str], folder: Path) -> Any:
    """As if accelerate had found room there and nowhere else."""
    placing = {"device_map": dict(places), "offload_folder": str(folder / "offloaded")}
    return mock.patch.object(checkpoints, "build_placement_arguments", return_value=placing)


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        ("inspect-model", "--metric", "head_contribution,entropy,max_activation"),
        ("rank-collapse", "--sub-blocks"),
    ],
)
def test_a_block_on_the_disk_gives_the_same_numbers(
    model: str, tmp_path: Path, line: tuple[str, ...]
) -> None:
    command, *options = line
    whole = json.loads(attn(command, model, *options, *WORDS).out)
    with spread(PLACES, tmp_path):
        outcome = attn(command, model, *options, *WORDS)
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out)["rows"] == whole["rows"]


@pytest.mark.parametrize(
    ("line", "places", "code", "said"),
    [
        (("paths",), {}, 3, "needs the model on one device, and --device-map has distributed it over cpu, disk"),
        (("rank-collapse", "--exact"), {}, 3, "--exact needs the model on one device"),
        (("inspect-model",), {"transformer.wte": "disk", "lm_head": "disk"}, 4, "not even the first layer"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(
    model: str, tmp_path: Path, line: tuple[str, ...], places: dict[str, str], code: int, said: str
) -> None:
    command, *options = line
    with spread({**PLACES, **places}, tmp_path):
        outcome = attn(command, model, *options, *WORDS)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err


def test_device_map_auto_is_the_model(model: str) -> None:
    whole = json.loads(attn("inspect-model", model, *WORDS).out)
    found = json.loads(attn("inspect-model", model, "--device-map", "auto", *WORDS).out)
    assert found["rows"] == whole["rows"]
    assert (found["source"]["device"], whole["source"]["device"]) == ("auto", "cpu")


def blank(kind: str, **changes: Any) -> PreTrainedModel:
    import torch
    from transformers import AutoConfig

    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **changes))  # fmt: skip
    return model


def test_plans_that_would_break_heads_are_refused() -> None:
    require_plan_splitting_blocks(blank("llama", num_hidden_layers=1), "llama")
    for kind in ("gpt2", "gpt_oss"):
        with pytest.raises(UsageError, match=f"no plan to split the blocks of '{kind}'"):
            require_plan_splitting_blocks(blank(kind, num_hidden_layers=1), kind)
    with pytest.raises(InputError, match=r"splits .* as mla_kv_a_proj"):
        require_plan_splitting_blocks(blank("deepseek_v2", num_hidden_layers=1), "deepseek_v2")
    config = LlamaConfig(num_attention_heads=8, num_key_value_heads=2)
    refuse_plan_splitting_heads(config, "llama", 2)
    with pytest.raises(UsageError, match="4 processes cannot share the 2 num_key_value_heads"):
        refuse_plan_splitting_heads(config, "llama", 4)
