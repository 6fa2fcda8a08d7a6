"""Switches on whole models: against a few lines by hand, and under everything else that may go on around them.

`test_against_oracles` has every architecture and every combination.
"""

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from oracles.forwards.tiny_models import TINY
from torch import Tensor, nn
from toy_blocks import WIDTH, Block, model_of, some_input
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from attncli.ablation import BlockAnatomy, ablate_sub_blocks, recognise_block_anatomy
from attncli.ablation.stream_tracking.source_code_locations import (
    CallSite,
    find_call_site_in_model_code,
)
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import observe_block_states
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.errors import UsageError
from attncli.networks.ablation_variants import AblationSwitches

SAN = AblationSwitches(skip=False, mlp=False, mlp_skip=False)


def last(model: Any, inputs: Any, anatomy: BlockAnatomy, switches: AblationSwitches) -> Tensor:
    """The last state of the only stack."""
    seen: list[Tensor] = []
    with (
        observe_block_states(model, anatomy.stacks, lambda _, state, hidden: seen.append(hidden)),
        ablate_sub_blocks(model, anatomy, switches),
    ):
        model(**inputs)
    return seen[-1]


def test_paths() -> None:
    """What lies between input and output of a block: skip additions and norms on the stream."""
    paths = {
        "bert": ("input", "attention", "norm", "mlp", "norm"),
        "llama": ("input", "attention", "mlp"),
        "gpt_neox": ("input", "parallel"),
    }
    for name, path in paths.items():
        model, inputs = TINY[name]()
        anatomy = recognise_block_anatomy(model, inputs)
        assert set(anatomy.paths.values()) == {path}
        assert bool(anatomy.notes) == (name == "gpt_neox")


def test_pure_attention_of_gpt2_by_hand() -> None:
    model, inputs = TINY["gpt2"]()
    found = last(model, inputs, recognise_block_anatomy(model, inputs), SAN)
    x = model.wte(inputs["input_ids"]) + model.wpe.weight[: inputs["input_ids"].shape[1]]
    for block in model.h:
        q, k, v = (
            part.view(1, -1, 3, 8).transpose(1, 2)
            for part in block.attn.c_attn(block.ln_1(x)).split(24, dim=2)
        )
        heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = block.attn.c_proj(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(found, x, rtol=1e-12, atol=1e-12)


def test_llama_without_mlp_skips_by_hand() -> None:
    """One block: attention as it is, then the MLP alone."""
    model, inputs = TINY["llama"]()
    model.layers = model.layers[:1].eval()
    model.config.num_hidden_layers = 1
    with force_float64():
        anatomy = recognise_block_anatomy(model, inputs)
        found = last(model, inputs, anatomy, AblationSwitches(mlp_skip=False))
        after_attention = last(model, inputs, anatomy, AblationSwitches(mlp=False))
        block = model.layers[0]
        by_hand = block.mlp(block.post_attention_layernorm(after_attention))
    torch.testing.assert_close(found, by_hand, rtol=1e-13, atol=1e-13)


def test_cohere_adds_its_branches_one_after_the_other() -> None:
    """Both start from the same norm, so the second addition is no skip of its own."""
    torch.manual_seed(0)
    config = hf.CohereConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=24,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = hf.CohereModel(config).double().eval().requires_grad_(False)
    inputs = {"input_ids": torch.arange(3, 10)[None]}
    anatomy = recognise_block_anatomy(model, inputs)
    assert anatomy.paths["layers", 0] == ("input", "attention", "beside")
    assert "share one skip" in anatomy.notes[0]
    x = model.embed_tokens(inputs["input_ids"])
    mlp = model.layers[0].mlp(model.layers[0].input_layernorm(x))
    with_skip = last(model, inputs, anatomy, AblationSwitches(mlp=False))
    attention = last(model, inputs, anatomy, SAN)
    torch.testing.assert_close(with_skip, x + attention, rtol=1e-12, atol=1e-12)
    expected = {
        AblationSwitches(): x + attention + mlp,
        AblationSwitches(skip=False): attention + mlp,
        AblationSwitches(mlp_skip=False): x + attention + mlp,
    }
    for switches, value in expected.items():
        found = last(model, inputs, anatomy, switches)
        torch.testing.assert_close(found, value, rtol=1e-6, atol=1e-6)  # Cohere's norm is float32


def test_a_norm_at_the_end_of_a_branch_is_a_block_norm() -> None:
    """Gemma's sandwich: without norms, the branch is added as it is; norms on queries and keys stay."""
    model, inputs = TINY["gemma3"]()
    with force_float64():
        anatomy = recognise_block_anatomy(model, inputs)
    ends = {
        f"layers.{i}.post_{part}_layernorm"
        for i in range(4)
        for part in ("attention", "feedforward")
    }
    assert anatomy.branch_norms == ends


def test_an_examined_model_runs_with_other_inputs() -> None:
    """Another length, a batch, another attention implementation; all blocks on: nothing changes."""
    model, inputs = TINY["llama"]()
    anatomy = recognise_block_anatomy(model, inputs)
    longer = {"input_ids": torch.arange(30)[None].expand(3, -1) + 5}
    model.set_attn_implementation("eager")
    expected = model(**longer).last_hidden_state
    with ablate_sub_blocks(model, anatomy, AblationSwitches()):
        assert torch.equal(model(**longer).last_hidden_state, expected)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("name", ["bert", "gpt_neox"])
def test_under_every_grad_mode(name: str, mode: Any) -> None:
    model, inputs = TINY[name]()
    expected = last(model, inputs, recognise_block_anatomy(model, inputs), SAN)
    with mode():
        fresh = {key: value.clone() for key, value in inputs.items()}
        found = last(model, fresh, recognise_block_anatomy(model, fresh), SAN)
    assert torch.equal(found, expected)


def assigned(out: Tensor, rows: slice, part: Tensor) -> None:
    out[:, rows] = part


def copied(out: Tensor, rows: slice, part: Tensor) -> None:
    out[:, rows].copy_(part)


def put_out(out: Tensor, rows: slice, part: Tensor) -> None:
    torch.mul(part, 1, out=out[:, rows])


def strips_written(write: Callable[[Tensor, slice, Tensor], None]) -> Callable[..., Any]:
    """Attention three rows at a time, written into a tensor that was empty."""

    def strips(
        module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any
    ) -> Any:
        out = torch.empty_like(query).transpose(1, 2).contiguous()
        for start in range(0, query.shape[2], 3):
            rows = slice(start, start + 3)
            seen = None if mask is None else mask[..., rows, :]
            some = query[:, :, rows]
            part = sdpa_attention_forward(module, some, key, value, seen, is_causal=False, **kwargs)
            write(out, rows, part[0])
        return out, None

    return strips


@pytest.mark.parametrize("write", [assigned, copied, put_out])
@pytest.mark.parametrize(
    "switches", [SAN, AblationSwitches(mlp=False), AblationSwitches(norms=False)]
)
def test_under_an_attention_of_our_own(switches: AblationSwitches, write: Any) -> None:
    model, inputs = TINY["bert"]()
    anatomy = recognise_block_anatomy(model, inputs)
    expected = last(model, inputs, anatomy, switches)
    AttentionInterface.register("strips", strips_written(write))
    AttentionMaskInterface.register("strips", sdpa_mask)
    model.set_attn_implementation("strips")
    with torch.inference_mode():  # where views do not know their base
        again = recognise_block_anatomy(model, inputs)
        assert again.paths == anatomy.paths
        for known in (anatomy, again):
            found = last(model, inputs, known, switches)
            torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


def test_the_order_of_contexts_does_not_matter() -> None:
    model, inputs = TINY["gpt_neox"]()
    anatomy = recognise_block_anatomy(model, inputs)
    expected = last(model, inputs, anatomy, SAN)
    seen: list[Tensor] = []

    def observe(stack: str, state: int, hidden: Tensor) -> None:
        """Adds what an ablation would take for a skip, if it looked."""
        seen.append(hidden + torch.softmax(hidden @ hidden.transpose(-1, -2), -1) @ hidden - hidden)

    for contexts in ("watch first", "switch first"):
        watch = observe_block_states(model, anatomy.stacks, observe)
        switch = ablate_sub_blocks(model, anatomy, SAN)
        first, second = (watch, switch) if contexts == "watch first" else (switch, watch)
        with first, second:
            model(**inputs)
    assert torch.equal(seen[3], seen[-1])
    assert expected.shape == seen[-1].shape


def test_what_we_put_around_a_module_is_no_place_in_the_models_code() -> None:
    """Else a norm or an addition would be another one as soon as something else is watched too."""

    class Where(nn.Module):
        def forward(self) -> CallSite:
            return find_call_site_in_model_code()

    module = Where()

    def run_wrapped_block() -> CallSite:
        place: CallSite = module()
        return place

    def of_the_model(forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    with wrap_forwards([module], of_the_model):
        assert [name for name, _ in run_wrapped_block().instructions] == ["forward", "of_the_model"]


@pytest.mark.slow
def test_tags_die_with_their_tensors() -> None:
    model, inputs = TINY["bert"]()
    anatomy = recognise_block_anatomy(model, inputs)
    counts = []
    for _ in range(3):
        last(model, inputs, anatomy, SAN)
        gc.collect()
        counts.append(sum(issubclass(type(kept), Tensor) for kept in gc.get_objects()))
    assert counts[0] == counts[-1]
    assert not any(hasattr(kept, "_attn_tag") for kept in (*inputs.values(), *model.parameters()))


def test_what_only_synthetic_networks_have_is_refused() -> None:
    model, inputs = model_of(Block), some_input()
    anatomy = recognise_block_anatomy(model, inputs)
    with pytest.raises(UsageError, match="synthetic networks only"):
        last(model, inputs, anatomy, AblationSwitches(remove_outlier=True))


def test_float64_models_stay_there() -> None:
    """Llama's RMSNorm and softmax cast to float32: that costs nine digits, and is led to float64."""
    model, inputs = TINY["llama"]()
    with force_float64():
        kept = model(**inputs).last_hidden_state
        assert torch.ones(1).dtype == torch.arange(3).float().dtype == torch.float64
    rounded = model(**inputs).last_hidden_state
    assert torch.ones(1).dtype == torch.float32
    error = float((kept - rounded).abs().max())
    assert 1e-9 < error < 1e-5


class Routed(Block):
    """Its MLP has a router whose logits are a product with a weight, and so no scores of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        y = self.second(x)
        return x + torch.softmax(y @ self.weight, dim=1) * self.mlp(y)


def test_a_router_in_the_mlp_is_no_attention() -> None:
    anatomy = recognise_block_anatomy(model_of(Routed), some_input())
    assert set(anatomy.paths.values()) == {("input", "attention", "mlp")}


class Conditioned(Block):
    """Something from elsewhere is added to the attention's branch: it is no second branch."""

    context = torch.linspace(-1, 1, 5 * WIDTH, dtype=torch.float64).view(1, 5, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = x + (self.attention(self.first(x)) + self.mlp(self.context))
        return x + self.mlp(self.second(x))


def test_a_term_from_elsewhere_belongs_to_the_branch() -> None:
    anatomy = recognise_block_anatomy(model_of(Conditioned), some_input())
    assert set(anatomy.paths.values()) == {("input", "attention", "mlp")}


def norm(x: Tensor) -> Tensor:
    return torch.nn.functional.rms_norm(x, (WIDTH,))


class NormedByAFunction(Block):
    """One function norms the stream, queries and keys, and the branch."""

    def attended(self, x: Tensor, turned_off: bool = False) -> Tensor:
        q, k, v, o = self.attention.maps
        y = x if turned_off else norm(x)
        weights = torch.softmax(norm(q(y)) @ norm(k(y)).transpose(-1, -2), dim=-1)
        branch: Tensor = o(weights @ v(y))
        return branch if turned_off else norm(branch)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attended(x)
        return x + self.mlp(norm(x))


def test_norms_of_queries_and_keys_stay_though_one_function_makes_them_all() -> None:
    model, inputs = model_of(NormedByAFunction, layers=1), some_input()
    anatomy = recognise_block_anatomy(model, inputs)
    found = last(model, inputs, anatomy, AblationSwitches(mlp=False, norms=False))
    x = model.embed(inputs["x"])
    expected = x + model.layers[0].attended(x, turned_off=True)
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
