"""The products of heads in files against what transformers' own modules do to basis vectors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from family_models import HEADS, HIDDEN, LAYER, MODELS, saved
from safetensors.numpy import load_file, save_file
from transformers import AttentionInterface

from attncli.errors import InputError
from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.model_families import FAMILIES
from attncli.head_weights.qk_ov_products import HeadProducts, iter_head_products
from attncli.models.files.tensor_reader import TensorReader

READERS = ("query", "key", "value", "q_lin", "k_lin", "v_lin", "q_proj", "k_proj", "v_proj")
FUSED = ("c_attn", "query_key_value", "qkv_proj", "Wqkv")
WRITERS = ("out_lin", "o_proj", "out_proj", "c_proj", "dense")
NORMS = ("ln_1", "input_layernorm", "layernorm_before", "self_attn_layer_norm", "norm_1")
PRE_NORM = ("vit", "deit", "gpt2", "gptj", "gpt_neo", "opt", "gpt_neox", "bloom", "mpt", "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "phi3", "gpt_oss")  # fmt: skip
QK_NORM = ("qwen3", "qwen3_moe", "olmo2", "gemma3_text")
FLOAT32_NORM = ("gemma", "gemma2", "gemma3_text")
OFF_INTERFACE = ("gptj", "gpt_neo", "bloom", "mpt", "roformer")


class Probe:
    """Feeds basis vectors and a zero to the projections of one layer, and catches what becomes of them head by head."""

    def __init__(self, model: Any, kind: str) -> None:
        self.model, self.kind = model, kind
        self.kept_head = 0
        self.caught: dict[str, torch.Tensor] = {}
        own = {
            n: m for n, m in model.named_modules() if f".{LAYER}." in f".{n}." or kind == "albert"
        }
        gain = self.gain(own) if kind in PRE_NORM else torch.ones(HIDDEN, dtype=torch.float64)
        self.rows = torch.cat([torch.diag(gain), torch.zeros(1, HIDDEN, dtype=torch.float64)])
        for name, module in own.items():
            last = name.rsplit(".", 1)[-1]
            if last in (*READERS, *FUSED):
                module.register_forward_pre_hook(self.feed)
                module.register_forward_hook(lambda _, __, out, last=last: self.keep(last, out))
            elif last in WRITERS and "att" in name and "crossatt" not in name:
                module.register_forward_pre_hook(self.one_head)
                module.register_forward_hook(lambda _, __, out: self.keep("written", out))

    def gain(self, own: dict[str, Any]) -> torch.Tensor:
        """Found by what the norm does to a standardised vector and to its opposite."""
        (norm,) = (module for name, module in own.items() if name.rsplit(".", 1)[-1] in NORMS)
        signs = 1.0 - 2.0 * (torch.arange(HIDDEN, dtype=torch.float64) % 2)
        with torch.no_grad():
            there, back = norm(1e6 * signs), norm(-1e6 * signs)
        return (there - back) / 2.0 * signs

    def feed(self, _: Any, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        shape = given[0].shape
        tokens = shape[:-1].numel()
        assert tokens >= len(self.rows)
        return (self.rows[torch.arange(tokens) % len(self.rows)].reshape(shape),)

    def one_head(self, _: Any, given: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        context = given[0].unflatten(-1, (HEADS, -1)).clone()
        context[..., torch.arange(HEADS) != self.kept_head, :] = 0.0
        return (context.flatten(-2),)

    def keep(self, name: str, out: torch.Tensor) -> None:
        self.caught[name] = out

    def attend(self, _module: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any, **__: Any) -> Any:  # fmt: skip
        """In place of attention: every token attends to itself."""
        k, v = (side.repeat_interleave(q.shape[1] // side.shape[1], dim=1) for side in (k, v))
        q = q * q.shape[-1] ** 0.5 if self.kind == "opt" else q  # scaled there before it gets here
        self.caught |= {"q": q.transpose(1, 2), "k": k.transpose(1, 2)}  # the last layer's stay
        return v.transpose(1, 2), None

    def run(self, head: int) -> dict[str, np.ndarray]:
        """[feature, …] per basis vector, biases taken off by what the zero gives."""
        self.kept_head = head
        count = len(self.rows)
        words = {"input_ids": torch.randint(0, 11, (count, 1), generator=torch.manual_seed(0))}
        pixels = {"pixel_values": torch.ones(count, 3, 8, 8, dtype=torch.float64)}
        with torch.no_grad():
            self.model(**(pixels if self.model.main_input_name == "pixel_values" else words))
        return {name: self.per_vector(out) for name, out in self.caught.items()}

    def per_vector(self, out: torch.Tensor) -> np.ndarray:
        flat = out.flatten(0, 1)[: len(self.rows)]
        return (flat[:-1] - flat[-1]).numpy()

    def compared(self, caught: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Queries and keys as [feature, head, d]."""
        if self.kind == "bloom":
            parts = caught["query_key_value"].reshape(HIDDEN, HEADS, 3, -1)
            return parts[:, :, 0], parts[:, :, 1]
        if self.kind == "mpt":
            q, k, _ = np.split(caught["Wqkv"], 3, axis=-1)
        elif self.kind == "roformer":
            q, k = caught["query"], caught["key"]
        elif self.kind in OFF_INTERFACE:
            q, k = caught["q_proj"], caught["k_proj"]
        else:
            return caught["q"], caught["k"]
        return q.reshape(HIDDEN, HEADS, -1), k.reshape(HIDDEN, HEADS, -1)


def test_every_family_is_here() -> None:
    assert set(MODELS) == set(FAMILIES)


@pytest.mark.parametrize("kind", MODELS)
def test_the_products_are_what_the_model_does(kind: str, tmp_path: Path) -> None:
    model = saved(kind, tmp_path)
    probe = Probe(model, kind)
    if kind not in OFF_INTERFACE:
        AttentionInterface.register("probe", probe.attend)
        model.set_attn_implementation("probe")
    found = list(products(tmp_path, range(HEADS)))
    close = 1e-6 if kind in FLOAT32_NORM else 1e-9
    for head, ours in enumerate(found):
        caught = probe.run(head)
        np.testing.assert_allclose(formed(ours.ov), caught["written"], atol=close)
        if kind in QK_NORM:
            assert ours.qk is None
            continue
        queries, keys = probe.compared(caught)
        explicit = queries[:, head] @ keys[:, head].T
        assert np.abs(explicit).max() > 0.1
        assert ours.qk is not None
        np.testing.assert_allclose(formed(ours.qk), explicit, atol=close)
    assert not np.allclose(formed(found[0].ov), formed(found[1].ov))


def products(folder: Path, heads: Any, layer: int = LAYER) -> list[HeadProducts]:
    return list(
        iter_head_products(TensorReader(folder), HeadConfig.read_config(folder), [layer], heads)
    )


def formed(product: Any) -> np.ndarray:
    return product.left @ product.right.T


def test_a_missing_gain_is_refused(tmp_path: Path) -> None:
    """Without it the numbers would be those of another head."""
    saved("llama", tmp_path)
    path = tmp_path / "model.safetensors"
    held = load_file(path)
    del held[f"layers.{LAYER}.input_layernorm.weight"]
    save_file(held, path)
    with pytest.raises(InputError, match="no gain of the norm before layer 1"):
        products(tmp_path, [0])


def test_narrow_types_and_shards_are_read_exactly(tmp_path: Path) -> None:
    model = saved("gpt2", tmp_path, torch.bfloat16)
    model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    one, other = (products(folder, [3])[0] for folder in (tmp_path, tmp_path / "shards"))
    own = model.h[LAYER].attn.c_proj.weight.detach().double().numpy()
    np.testing.assert_array_equal(one.ov.right.T, own[-one.ov.right.shape[1] :])
    np.testing.assert_array_equal(one.ov.left, other.ov.left)
    np.testing.assert_array_equal(one.ov.right, other.ov.right)


def test_only_what_was_read_is_hashed(tmp_path: Path) -> None:
    """The hash does not see other layers, and sees a change of one bit in this one."""
    saved("llama", tmp_path)
    path = tmp_path / "model.safetensors"

    def changed(name: str) -> str:
        held = load_file(path)
        held[name].flat[0] *= 1.5
        save_file(held, path)
        tensors = TensorReader(tmp_path)
        list(iter_head_products(tensors, HeadConfig.read_config(tmp_path), [LAYER], [0]))
        return tensors.sha256()

    first = changed("layers.0.self_attn.q_proj.weight")
    assert changed("layers.0.self_attn.q_proj.weight") == first
    assert changed(f"layers.{LAYER}.self_attn.o_proj.weight") != first
