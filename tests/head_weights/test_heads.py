"""Heads of saved models against transformers' own queries, keys and attention; and everything that is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from family_models import LAYER, saved
from safetensors.numpy import load_file, save_file

from attncli.commands.inspect_weights.report import build_weights_report
from attncli.errors import AttnError, InputError, UsageError
from attncli.head_weights.inputs_for_requested_queries import (
    invert_query_key_projections,
    project_inputs_to_queries_and_keys,
    solve_inputs_for_projections,
    solve_projections_for_scores,
)
from attncli.head_weights.model_families import FAMILIES
from attncli.head_weights.trained_head import read_head
from attncli.models.files.model_folder import FetchSettings

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

KINDS = [kind for kind, family in FAMILIES.items() if not family.logits]
"""Families whose logits are nothing but scaled products of queries and keys."""
IN_FLOAT32 = ("vit", "deit", "opt", "gpt_neox", "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "gemma", "phi3")  # fmt: skip
"""There transformers takes the softmax (and the rotary angles) in float32, whatever the model's dtype."""
READERS = ("query", "q_lin", "c_attn", "q_proj", "qkv_proj", "query_key_value")
HEAD = 3


def run(model: Any, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """What entered the layer's attention, and the head's weights there."""
    caught: list[Any] = []
    for name, module in model.named_modules():
        last = name.rsplit(".", 1)[-1]
        inside = f".{LAYER}." in f".{name}." or kind == "albert"
        if last in READERS and inside:
            module.register_forward_pre_hook(lambda _, given: caught.append(given[0]))
    if kind in ("vit", "deit"):
        inputs = {"pixel_values": torch.randn(1, 3, 8, 8, dtype=model.dtype)}
    else:
        inputs = {"input_ids": torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])}
    with torch.no_grad():
        weights = model(**inputs, output_attentions=True).attentions[LAYER][0, HEAD]
    return caught[-1].squeeze(0).double().numpy(), weights.double().numpy()


def ours(folder: Path, x: np.ndarray) -> np.ndarray:
    head = read_head(str(folder), f"{LAYER}.{HEAD}")
    queries, keys = project_inputs_to_queries_and_keys(head, x, "float64")
    logits = head.scale * queries @ keys.T
    if head.causal:
        logits[np.triu_indices(len(x), 1)] = -np.inf
    made = np.exp(logits - logits.max(axis=1, keepdims=True))
    return made / made.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
def test_the_head_is_transformers_head(kind: str, tmp_path: Path) -> None:
    """From what entered the layer: the same attention weights."""
    model = saved(kind, tmp_path)
    x, theirs = run(model, kind)
    assert theirs.max() - theirs.min() > 0.05  # not a uniform map, which anything would reproduce
    close = 1e-6 if kind in IN_FLOAT32 else 1e-12
    np.testing.assert_allclose(ours(tmp_path, x), theirs, atol=close)


@pytest.mark.parametrize("kind", ["bert", "gpt2", "gpt_neox", "llama"])
def test_inputs_have_the_wanted_logits(kind: str, tmp_path: Path) -> None:
    """Biases, grouped keys, fused layouts and rotary positions are all undone."""
    saved(kind, tmp_path)
    head = read_head(str(tmp_path), f"{LAYER}.{HEAD}")
    queries, keys = np.random.default_rng(0).normal(size=(2, 9, head.query_key_width))
    pseudo = invert_query_key_projections(head, "float64")
    x = solve_inputs_for_projections(
        head, solve_projections_for_scores(head, queries, keys), pseudo, "float64"
    )
    made = project_inputs_to_queries_and_keys(head, x, "float64")
    np.testing.assert_allclose(head.scale * made[0] @ made[1].T, queries @ keys.T, atol=1e-9)
    values = np.linalg.svd(np.hstack([head.w_q, head.w_k]), compute_uv=False)
    assert pseudo.condition == pytest.approx(values[0] / values[-1])


def test_the_norm_before_the_head_is_found(tmp_path: Path) -> None:
    """Layer 0 of a post-norm model reads the embeddings' norm, later layers that of the layer before."""
    saved("bert", tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    names = ("embeddings.LayerNorm", "encoder.layer.0.output.LayerNorm")
    for layer, name in enumerate(names):
        norm = read_head(str(tmp_path), f"{layer}.0").norm
        assert norm is not None
        assert norm.centred
        np.testing.assert_array_equal(norm.gain, held[f"{name}.weight"])
        np.testing.assert_array_equal(norm.bias, held[f"{name}.bias"])
    assert not np.array_equal(held[f"{names[0]}.weight"], held[f"{names[1]}.weight"])


def test_norms_by_their_first_names_are_the_same_norms(tmp_path: Path) -> None:
    """Files of the first BERTs call gain and bias gamma and beta, and transformers renames them."""
    saved("bert", tmp_path)
    before = [read_head(str(tmp_path), f"{layer}.0").norm for layer in (0, 1)]
    held = load_file(tmp_path / "model.safetensors")
    first = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed = {name: next((name.replace(a, b) for a, b in first.items() if a in name), name) for name in held}  # fmt: skip
    assert len({*renamed.values()} - {*held}) == 10
    save_file({renamed[name]: held[name] for name in held}, tmp_path / "model.safetensors")
    for layer, norm in enumerate(before):
        found = read_head(str(tmp_path), f"{layer}.0").norm
        assert norm is not None
        assert found is not None
        np.testing.assert_array_equal(found.gain, norm.gain)
        np.testing.assert_array_equal(found.bias, norm.bias)


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_pickled_weights_are_read_where_that_is_allowed(kind: str, tmp_path: Path) -> None:
    """The same head, to the last bit, and the same numbers of all heads."""
    saved(kind, tmp_path)
    head, report = read_head(str(tmp_path), "1.2"), build_weights_report(tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    torch.save({name: torch.from_numpy(held[name]) for name in held}, tmp_path / "pytorch_model.bin")  # fmt: skip
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"pytorch_model\.bin, a pickle: `allow_pickle=True`"):
        read_head(str(tmp_path), "1.2")
    pickled = FetchSettings(allow_pickle=True)
    same = read_head(str(tmp_path), "1.2", pickled)
    assert same.description == head.description
    np.testing.assert_array_equal(same.w_k, head.w_k)
    assert build_weights_report(tmp_path, how=pickled).rows == report.rows


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_narrow_types_are_read_exactly(dtype: str, tmp_path: Path) -> None:
    model = saved("bert", tmp_path, getattr(torch, dtype))
    own = model.encoder.layer[LAYER].attention.self
    head = read_head(str(tmp_path), f"{LAYER}.{HEAD}")
    part = slice(HEAD * head.query_key_width, (HEAD + 1) * head.query_key_width)
    np.testing.assert_array_equal(head.w_q, own.query.weight.detach().double().numpy()[part].T)
    np.testing.assert_array_equal(head.b_k, own.key.bias.detach().double().numpy()[part])


def test_shards_and_prefixes_make_no_difference(tmp_path: Path) -> None:
    saved("bert", tmp_path / "one")
    held = load_file(tmp_path / "one" / "model.safetensors")
    names = sorted(held)
    (tmp_path / "two").mkdir()
    halves = {f"part-{i}.safetensors": names[i::2] for i in range(2)}
    for file, own in halves.items():
        save_file({f"bert.{name}": held[name] for name in own}, tmp_path / "two" / file)
    index = {f"bert.{name}": file for file, own in halves.items() for name in own}
    (tmp_path / "two" / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": index})
    )
    (tmp_path / "two" / "config.json").write_text((tmp_path / "one" / "config.json").read_text())
    one, two = (read_head(str(tmp_path / name), "1.2") for name in ("one", "two"))
    assert one.description["weights_sha256"] == two.description["weights_sha256"]
    (tmp_path / "two" / "part-1.safetensors").unlink()
    with pytest.raises(InputError, match=r"lacks part-1\.safetensors"):
        read_head(str(tmp_path / "two"), "1.2")


CHANGES: dict[str, tuple[dict[str, Any], type[AttnError], str]] = {
    "unknown family": ({"model_type": "zebra"}, UsageError, "'zebra'"),
    "query norm": ({"model_type": "qwen3"}, UsageError, "QK-norm"),
    "relative bias": ({"model_type": "t5"}, UsageError, "relative bias"),
    "no family": ({"model_type": None}, InputError, "no model_type"),
    "relative positions": ({"position_embedding_type": "relative_key"}, UsageError, "relative_key"),
    "decoder": ({"is_decoder": True}, UsageError, "is_decoder"),
    "no heads": ({"num_attention_heads": 0}, InputError, "num_attention_heads"),
    "other sizes": ({"hidden_size": 64}, InputError, "the config says"),
    "layers apart": (
        {"per_layer_config": {"1": {"hidden_act": "relu", "head_dim": 4}}},
        UsageError,
        "layers their own head_dim",
    ),
    "fewer layers": ({"num_hidden_layers": 1}, UsageError, "layers 0 … 0"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_what_is_not_understood_is_refused_by_name(case: str, tmp_path: Path) -> None:
    changes, kind, says = CHANGES[case]
    saved("bert", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(kind, match=says) as refused:
        read_head(str(tmp_path), "1.0")
    assert "\n" not in str(refused.value)


def test_scaled_rotary_positions_are_refused(tmp_path: Path) -> None:
    saved("llama", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="'yarn'"):
        read_head(str(tmp_path), "0.0")


def test_a_norm_on_queries_is_seen_in_the_file(tmp_path: Path) -> None:
    saved("llama", tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    held["layers.1.self_attn.q_norm.weight"] = np.ones(10)
    save_file(held, tmp_path / "model.safetensors")
    with pytest.raises(UsageError, match="q_norm"):
        read_head(str(tmp_path), "1.0")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda path: path.rename(path.parent / "pytorch_model.bin"), "a pickle"),
        (lambda path: path.unlink(), "has neither"),
        (lambda path: path.write_bytes(b"\x05\0"), "cut off"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "outside the file"),
        (lambda path: path.write_bytes((8).to_bytes(8, "little") + b"notjson!"), "cannot be read"),
        (lambda path: (path.parent / "config.json").write_text("{"), "as JSON"),
        (lambda path: (path.parent / "config.json").write_text("[]"), "no JSON object"),
    ],
)
def test_broken_folders_are_refused_in_one_sentence(spoil: Any, says: str, tmp_path: Path) -> None:
    saved("bert", tmp_path)
    spoil(tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=says) as refused:
        read_head(str(tmp_path), "0.0")
    assert "\n" not in str(refused.value)


def test_dependent_columns_are_refused(tmp_path: Path) -> None:
    """One head as wide as the model: 2d columns in d dimensions."""
    saved("bert", tmp_path, num_attention_heads=1)
    head = read_head(str(tmp_path), "0.0")
    with pytest.raises(InputError, match="96 columns, of which 48 are independent"):
        invert_query_key_projections(head, "float64")
