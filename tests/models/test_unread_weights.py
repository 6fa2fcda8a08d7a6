"""Folders whose tensors are not yet the model's weights: every reader refuses them, or says which it has taken."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_checkpoints import change_config, saved

import attncli
from attncli.errors import InputError

torch.set_num_threads(1)

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHARD = "model-00001-of-00001.safetensors"
IDS = "3,5,7,9"

READERS: dict[str, Callable[[Path], attncli.Report]] = {
    "inspect": lambda folder: attncli.inspect_model(str(folder), token_ids=IDS, metric="entropy"),
    "weights": lambda folder: attncli.inspect_weights(str(folder)),
    "collapse": lambda folder: attncli.rank_collapse(str(folder), token_ids=IDS, variants="SAN"),
    "paths": lambda folder: attncli.paths(str(folder), token_ids=IDS),
    "module": lambda folder: attncli.head_capacity(
        str(folder), head="0.0", pattern="window:3", length=8
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    saved("GPT2LMHeadModel", tmp_path)
    return tmp_path


def with_tensors(folder: Path, **more: torch.Tensor) -> None:
    held = load_file(folder / WEIGHTS)
    save_file({**held, **more}, folder / WEIGHTS, metadata={"format": "pt"})


def refusals(folder: Path, but: tuple[str, ...] = ()) -> list[str]:
    """Of all readers."""
    found = []
    for name, read in READERS.items():
        if name in but:
            continue
        with pytest.raises(InputError) as refused:
            read(folder)
        found.append(str(refused.value))
    return found


@pytest.mark.parametrize("beside", [True, False])
def test_an_adapter_is_not_its_base(folder: Path, beside: bool) -> None:
    (folder / "adapter_config.json").write_text("{}")
    save_file({"lora": torch.ones(2)}, folder / "adapter_model.safetensors")
    if not beside:
        (folder / WEIGHTS).unlink()
        (folder / "config.json").unlink()
    assert all("merge it into its base" in sentence for sentence in refusals(folder))


def test_layers_that_the_config_does_not_have(folder: Path) -> None:
    change_config(folder, n_layer=1)
    assert all("of another model" in sentence for sentence in refusals(folder))


@pytest.mark.parametrize("part", ["lora_A.weight", "weight_scale_inv", "SCB"])
def test_tensors_that_change_a_projection(folder: Path, part: str) -> None:
    name = f"transformer.h.1.attn.c_proj.{part}"
    with_tensors(folder, **{name: torch.ones(2, 16)})
    assert all(name in sentence for sentence in refusals(folder))


def test_a_config_that_says_quantised(folder: Path) -> None:
    change_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    assert all("quantised (gptq)" in sentence for sentence in refusals(folder))


def test_whole_numbers_are_named(folder: Path) -> None:
    name = "transformer.h.0.attn.c_attn.weight"
    held = load_file(folder / WEIGHTS)
    with_tensors(folder, **{name: held[name].to(torch.int8)})
    assert all(f"{name} holds I8" in sentence for sentence in refusals(folder))


@pytest.mark.slow
def test_shards_beside_a_whole_file_are_not_read_and_that_is_said(folder: Path) -> None:
    held = load_file(folder / WEIGHTS)
    before = {name: read(folder) for name, read in READERS.items()}
    save_file({name: 2 * each for name, each in held.items()}, folder / SHARD)
    said = {"weight_map": dict.fromkeys(held, SHARD)}
    (folder / INDEX).write_text(json.dumps(said))
    for name, read in READERS.items():
        report = read(folder)
        assert [row.value for row in report.rows] == [row.value for row in before[name].rows]
        assert any(f"{WEIGHTS} is read" in warning for warning in report.warnings)
        assert not any(f"{WEIGHTS} is read" in warning for warning in before[name].warnings)


@pytest.mark.parametrize("word", ["_attn_implementation", "attn_implementation"])
def test_the_kernel_of_another_machine_is_not_asked_for(folder: Path, word: str) -> None:
    before = READERS["inspect"](folder)
    change_config(folder, **{word: "flash_attention_2"})
    assert READERS["inspect"](folder).rows == before.rows


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_parameters": {"rope_type": "default", "rope_theta": float("nan")}},
        {"rope_scaling": {"rope_type": "linear", "factor": 0.0}},
    ],
)
def test_rotary_numbers_that_are_none_are_named(tmp_path: Path, rope: dict[str, object]) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}  # fmt: skip
    LlamaForCausalLM(LlamaConfig(vocab_size=19, **sizes)).save_pretrained(tmp_path)
    change_config(tmp_path, **{"rope_parameters": None, **rope})
    with pytest.raises(InputError, match=r"inv_freq are not finite: correct the rotary numbers"):
        READERS["inspect"](tmp_path)
