"""Terms by path length through model code: they add up, and each is what a frozen pass written out by hand says."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from oracles.forwards.tiny_models import TINY
from torch import Tensor

from attncli.capture.model_structure.blocks import (
    BlockStack,
    find_block_stacks,
    observe_block_states,
)
from attncli.errors import InputError
from attncli.models.precision import run_in_model_precision
from attncli.tensor_subclasses.path_streams.head_contributions import compute_contributions_by_head
from attncli.tensor_subclasses.path_streams.partial_streams import LengthStreams
from attncli.tensor_subclasses.path_streams.path_tensor import make_initial_path_tensor
from attncli.tensor_subclasses.path_streams.path_tensor_forward import (
    PathDecomposition,
    decompose_by_attention_and_mlp_length,
    decompose_by_path_length,
    run_single_paths,
)
from attncli.tensor_subclasses.path_streams.token_contributions import compute_token_contributions

torch.set_num_threads(1)


def prepared(name: str) -> tuple[Any, Any, tuple[BlockStack, ...]]:
    model, inputs = TINY[name]()
    for module in model.modules():
        if hasattr(module, "config"):
            module.config.use_cache = False  # as every model is loaded
    with run_in_model_precision(model):
        return model, inputs, find_block_stacks(model, inputs)


def found(name: str, attention: bool) -> PathDecomposition:
    model, inputs, stacks = prepared(name)
    with run_in_model_precision(model):
        return decompose_by_path_length(model, stacks[0], inputs, attention)[0]


COVERED = [name for name in TINY if name not in ("gemma4", "qwen3_next") and "xlnet" not in name]


@pytest.mark.parametrize("attention", [True, False], ids=["attention", "mlp"])
@pytest.mark.parametrize("name", COVERED)
def test_terms_add_up_to_the_plain_output(name: str, attention: bool) -> None:
    model, inputs, stacks = prepared(name)
    states: dict[tuple[str, int], Tensor] = {}
    with run_in_model_precision(model), torch.no_grad():
        with observe_block_states(model, stacks, lambda s, i, t: states.update({(s, i): t})):
            model(**inputs)
        terms = decompose_by_path_length(model, stacks[0], inputs, attention)[0].terms
    plain = states[stacks[0].name, len(stacks[0].calls)][0]
    assert len(terms) == len(stacks[0].calls) + 1
    assert float((terms.sum(dim=0) - plain).norm() / plain.norm()) < 1e-12
    assert all(bool(term.any()) for term in terms)


@pytest.mark.parametrize("name", COVERED)
def test_lengths_of_both_kinds_together_are_those_of_each_kind_apart(name: str) -> None:
    model, inputs, stacks = prepared(name)
    for stack in stacks:
        with run_in_model_precision(model):
            both = decompose_by_attention_and_mlp_length(model, stack, inputs).terms
            of_each = [
                decompose_by_path_length(model, stack, inputs, kind)[0].terms
                for kind in (True, False)
            ]
        for axis, terms in zip((1, 0), of_each, strict=True):
            assert float((both.sum(dim=axis) - terms).norm() / terms.norm()) < 1e-12


@pytest.mark.parametrize("z", [0.5, -1.3])
def test_each_term_of_both_kinds_is_a_coefficient_of_the_frozen_network(z: float) -> None:
    """Every attention multiplied by z and every MLP by w: Σ z^a w^m T_am."""
    model, inputs, (stack,) = prepared("gpt2")
    with run_in_model_precision(model):
        both = decompose_by_attention_and_mlp_length(model, stack, inputs).terms
    w = 0.7 * z
    with torch.no_grad():
        expected = gpt2_by_hand(model, inputs, z, w)
    factors = [[z**a * w**m for m in range(4)] for a in range(4)]
    ours = torch.einsum("am,amtf->tf", torch.tensor(factors, dtype=torch.float64), both)
    assert float((ours - expected).norm() / expected.norm()) < 1e-11


@pytest.mark.parametrize("name", ["t5", "t5-gated", "whisper"])
def test_terms_of_a_decoder_add_up_with_what_the_encoder_brings(name: str) -> None:
    """Another stack's states are weighed by frozen maps: they begin paths of length 0, as biases do."""
    model, inputs, stacks = prepared(name)
    states: dict[tuple[str, int], Tensor] = {}
    with run_in_model_precision(model), torch.no_grad():
        with observe_block_states(model, stacks, lambda s, i, t: states.update({(s, i): t})):
            model(**inputs)
        terms = decompose_by_path_length(model, stacks[1], inputs, True)[0].terms
    plain = states[stacks[1].name, len(stacks[1].calls)][0]
    assert len(terms) == len(stacks[1].calls) + 1
    assert float((terms.sum(dim=0) - plain).norm() / plain.norm()) < 1e-12


@pytest.mark.parametrize("name", COVERED)
def test_terms_add_up_in_float32_too(name: str) -> None:
    model, inputs = TINY[name]()
    model.float().config.use_cache = False
    inputs = {key: one.float() if one.is_floating_point() else one for key, one in inputs.items()}
    stacks = find_block_stacks(model, inputs)
    found, _ = decompose_by_path_length(model, stacks[0], inputs, True)
    assert found.terms.dtype == torch.float32
    apart = found.terms.double().sum(dim=0) - found.output
    assert float(apart.norm() / found.output.norm()) < 2e-6


def normed(x: Tensor, full: Tensor, module: Any) -> Tensor:
    """A layer norm or RMS norm with the full stream's denominator."""
    if isinstance(module, torch.nn.LayerNorm):
        spread = full.var(dim=-1, unbiased=False, keepdim=True) + module.eps
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / spread.sqrt() * module.weight + module.bias
    spread = full.square().mean(dim=-1, keepdim=True) + module.variance_epsilon
    return x / spread.sqrt() * module.weight


def maps_of(model: Any, inputs: Any) -> Any:
    model.set_attn_implementation("eager")
    with run_in_model_precision(model), torch.no_grad():
        return [layer[0] for layer in model(**inputs, output_attentions=True).attentions]


def mixed(weights: Tensor, values: Tensor, heads: int) -> Tensor:
    """P_h V_h, head beside head; key heads may be fewer."""
    width = values.shape[-1] // heads
    own = [values[:, width * h : width * (h + 1)] for h in range(heads)]
    return torch.cat([p @ own[h * heads // len(weights)] for h, p in enumerate(weights)], dim=-1)


def gpt2_by_hand(
    model: Any, inputs: Any, attention: float, mlp: float, silent: tuple[int, int] | None = None
) -> Tensor:
    """The frozen network's output when attentions and MLPs are multiplied by these, and a head of a layer by 0."""
    ids = inputs["input_ids"][0]
    full = model.wte.weight[ids] + model.wpe.weight[: len(ids)]
    part = full.clone()
    for layer, (block, weights) in enumerate(zip(model.h, maps_of(model, inputs), strict=True)):
        size = full.shape[-1]
        after = []
        for x, z in ((full, 1.0), (part, attention)):
            given = normed(x, full, block.ln_1)
            values = (
                given @ block.attn.c_attn.weight[:, 2 * size :] + block.attn.c_attn.bias[2 * size :]
            )
            heads = z * mixed(weights, values, len(weights))
            if x is part and x is not full and silent is not None and layer == silent[0]:
                width = size // len(weights)
                heads[:, width * silent[1] : width * (silent[1] + 1)] = 0.0
            after.append(x + heads @ block.attn.c_proj.weight + block.attn.c_proj.bias)
        full, part = after
        inner = [
            normed(x, full, block.ln_2) @ block.mlp.c_fc.weight + block.mlp.c_fc.bias
            for x in (full, part)
        ]
        ratio = block.mlp.act(inner[0]) / inner[0]
        full, part = (
            x + z * (ratio * h) @ block.mlp.c_proj.weight + block.mlp.c_proj.bias
            for x, h, z in ((full, inner[0], 1.0), (part, inner[1], mlp))
        )
    return part


def llama_by_hand(model: Any, inputs: Any, attention: float, mlp: float) -> Tensor:
    full = part = model.embed_tokens(inputs["input_ids"])[0]
    for block, weights in zip(model.layers, maps_of(model, inputs), strict=True):
        norm, attend = block.input_layernorm, block.self_attn
        full, part = (
            x + attend.o_proj(z * mixed(weights, attend.v_proj(normed(x, full, norm)), 2))
            for x, z in ((full, 1.0), (part, attention))
        )
        given = [normed(x, full, block.post_attention_layernorm) for x in (full, part)]
        gate = block.mlp.act_fn(block.mlp.gate_proj(given[0]))
        full, part = (
            x + block.mlp.down_proj(z * gate * block.mlp.up_proj(g))
            for x, g, z in ((full, given[0], 1.0), (part, given[1], mlp))
        )
    return part


@pytest.mark.parametrize("z", [0.0, 0.5, -1.3, 2.0])
@pytest.mark.parametrize("attention", [True, False], ids=["attention", "mlp"])
@pytest.mark.parametrize(("name", "by_hand"), [("gpt2", gpt2_by_hand), ("llama", llama_by_hand)])
def test_each_term_is_a_coefficient_of_the_frozen_network(
    name: str, by_hand: Any, attention: bool, z: float
) -> None:
    """Multiply every step by z: the frozen output is Σ_k z^k T_k."""
    terms = found(name, attention).terms
    model, inputs, _ = prepared(name)
    with torch.no_grad():
        expected = by_hand(model, inputs, *((z, 1.0) if attention else (1.0, z)))
    powers = torch.tensor([z**k for k in range(len(terms))], dtype=torch.float64)
    ours = (powers[:, None, None] * terms).sum(dim=0)
    assert float((ours - expected).norm() / expected.norm()) < 1e-11


@pytest.mark.parametrize(("layer", "head"), [(0, 0), (0, 2), (1, 1), (2, 0)])
def test_the_share_of_a_head_is_what_its_silence_takes_from_the_frozen_network(
    layer: int, head: int
) -> None:
    model, inputs, stacks = prepared("gpt2")
    with run_in_model_precision(model):
        output, shares = compute_contributions_by_head(model, stacks[0], inputs)
    with torch.no_grad():
        without = gpt2_by_hand(model, inputs, 1.0, 1.0, silent=(layer, head))
    expected = float(((output - without) * output).sum() / output.square().sum())
    assert float(shares[layer][head]) == pytest.approx(expected, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("name", COVERED)
def test_the_frozen_network_is_the_model(name: str) -> None:
    """What the shares of heads are taken of: its output is that of all lengths together."""
    model, inputs, stacks = prepared(name)
    with run_in_model_precision(model):
        output, shares = compute_contributions_by_head(model, stacks[0], inputs)
        parts = decompose_by_path_length(model, stacks[0], inputs, True)[0]
    assert float((output - parts.output).norm() / output.norm()) < 1e-12
    assert tuple(map(len, shares)) == parts.heads


@pytest.mark.parametrize("name", [name for name in COVERED if name != "albert-grouped"])
def test_all_single_paths_together_are_all_that_comes_from_the_inputs(name: str) -> None:
    """Every choice of a head or none at every attention, (H + 1)^L of them."""
    model, inputs, stacks = prepared(name)
    for stack in stacks:
        with run_in_model_precision(model):
            heads = decompose_by_path_length(model, stack, inputs, True)[0].heads
            paths = list(itertools.product(*(range(count + 1) for count in heads)))
            terms = run_single_paths(model, stack, inputs, paths).terms
            whole = compute_token_contributions(model, stack, inputs, 2).of_inputs
        assert float((terms[:, 2].sum(dim=0) - whole).norm() / whole.norm()) < 1e-11
        assert all(bool(term.any()) for term in terms)


def test_single_paths_of_one_length_are_the_term_of_that_length() -> None:
    """Without biases on the way nothing else begins there."""
    model, inputs = TINY["llama"]()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("bias"):
            parameter.zero_()
    model.config.use_cache = False
    with run_in_model_precision(model):
        (stack,) = find_block_stacks(model, inputs)
        by_length = decompose_by_path_length(model, stack, inputs, True)[0]
        paths = list(itertools.product(range(5), repeat=3))
        single = run_single_paths(model, stack, inputs, paths).terms
    for length, term in enumerate(by_length.terms):
        own = [place for place, path in enumerate(paths) if sum(map(bool, path)) == length]
        assert float((single[own].sum(dim=0) - term).norm() / term.norm()) < 1e-12


def test_paths_through_a_head_are_what_its_silence_takes_from_the_frozen_network() -> None:
    model, inputs = TINY["gpt2"]()
    for parameter_name, parameter in model.named_parameters():
        if parameter_name.endswith("bias"):
            parameter.zero_()
    model.config.use_cache = False
    paths = list(itertools.product(range(4), repeat=3))
    with run_in_model_precision(model):
        (stack,) = find_block_stacks(model, inputs)
        output, single, _ = run_single_paths(model, stack, inputs, paths)
    for layer, head in ((0, 0), (1, 2), (2, 1)):
        own = [place for place, path in enumerate(paths) if path[layer] == head + 1]
        with torch.no_grad():
            without = gpt2_by_hand(model, inputs, 1.0, 1.0, silent=(layer, head))
        taken = output - without
        assert float((single[own].sum(dim=0) - taken).norm() / taken.norm()) < 1e-11


def test_heads_are_counted_as_they_attend() -> None:
    assert found("llama", True).heads == (4, 4, 4)
    assert found("albert-grouped", True).heads == (3,) * 8


def refused(model: Any, said: str) -> None:
    model.config.use_cache = False
    inputs = {"input_ids": torch.arange(5, 14)[None]}
    with pytest.raises(InputError, match=said):
        decompose_by_path_length(model, find_block_stacks(model, inputs)[0], inputs, True)


def test_other_layouts_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="XLNetLayer does not take"):
        found("xlnet", True)


def test_blocks_with_two_mlps_are_taken_apart_by_their_attentions_alone() -> None:
    """Gemma 4 has an embedding of its own for every layer, and scales its stream in place."""
    test_terms_add_up_to_the_plain_output("gemma4", True)
    with pytest.raises(InputError, match="a block with more steps than one"):
        found("gemma4", False)


def test_linear_layers_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"conv1d, which modeling_qwen3_next.py line \d+ uses"):
        found("qwen3_next", True)


def test_attention_that_folds_heads_into_the_batch_is_refused_by_name() -> None:
    config = hf.BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=2)
    refused(
        hf.BloomModel(config).double().eval(), r"baddbmm, which modeling_bloom.py line \d+ uses"
    )


def test_routers_are_refused_by_name() -> None:
    torch.manual_seed(0)
    config = hf.MixtralConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        intermediate_size=24,
        num_local_experts=2,
        num_experts_per_tok=1,
    )
    model = hf.MixtralModel(config).double().eval()
    model.set_experts_implementation("eager")
    refused(model, r"softmax, which modeling_mixtral.py line \d+ uses")


def test_attention_that_is_no_product_of_weights_and_values_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers.models.llama import modeling_llama

    usual = modeling_llama.eager_attention_forward

    def shifted(*args: Any, **kwargs: Any) -> Any:
        output, weights = usual(*args, **kwargs)
        return output + 0.01, weights

    monkeypatch.setattr(modeling_llama, "eager_attention_forward", shifted)
    with pytest.raises(InputError, match="the attention of LlamaAttention is not understood"):
        found("llama", True)


def streams(seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return make_initial_path_tensor(
        torch.randn((1, 4, 6), generator=generator, dtype=torch.float64),
        LengthStreams(attentions=1),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x * x,
        lambda x: x.transpose(0, 1),
        lambda x: x[0],
        lambda x: x.softmax(dim=-1),
        lambda x: x.exp(),
        lambda x: x.sigmoid(),
        lambda x: x @ x.transpose(1, 2),
        lambda x: 1.0 / x,
        lambda x: x.sum(dim=0),
        lambda x: torch.cat([x, x], dim=0),
        lambda x: x.mean(),
        lambda x: torch.nn.functional.layer_norm(x, (4, 6)),
        lambda x: x.mark_attention_output().mark_attention_output(),
    ],
)
def test_whatever_is_not_linear_or_mixes_streams_is_refused(wrong: Any) -> None:
    with pytest.raises(InputError, match="there is no rule for"):
        wrong(streams())


def test_constants_begin_at_length_zero() -> None:
    x = streams()
    constant = torch.ones(6, dtype=torch.float64)
    for moved in (x + constant, constant + x, x - (-constant)):
        assert torch.equal(moved.numbers[0], x.numbers[0] + 1.0)
        assert torch.equal(moved.numbers[1], x.numbers[1] + 1.0)
        assert not moved.numbers[2].any()
    rows = x.view(-1, 6)
    assert torch.equal((rows + constant).view(3, 4, 6).numbers, (x + constant).numbers)


def test_a_step_moves_every_length_on() -> None:
    moved = streams().mark_attention_output()
    assert torch.equal(moved.numbers[2], streams().numbers[1])
    assert not moved.numbers[1].any()
    assert torch.equal(moved.numbers[0], streams().numbers[0])


def test_changes_in_place_reach_every_view() -> None:
    x, other = streams(), streams(1)
    view = x.view(-1, 6)
    view += other.view(-1, 6)
    assert np.allclose(x.numbers, streams().numbers + other.numbers)
