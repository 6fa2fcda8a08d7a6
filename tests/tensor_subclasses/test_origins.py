"""Attribution to input tokens: against frozen networks run token by token, and rollout against whole products of maps."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from oracles.forwards.tiny_models import TINY
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    replace_tensor_argument,
)
from attncli.errors import InputError
from attncli.models.precision import run_in_model_precision
from attncli.tensor_subclasses.path_streams.token_contributions import compute_token_contributions

torch.set_num_threads(1)

GATED = ("llama", "gemma3", "t5-gated")


def prepared(name: str, **sizes: int) -> tuple[Any, Any]:
    model, inputs = TINY[name](**sizes)
    for module in model.modules():
        if hasattr(module, "config"):
            module.config.use_cache = False  # as every model is loaded
    return model, inputs


def origin(model: Any, inputs: Any, token: int, stack: int = 0) -> Any:
    with run_in_model_precision(model):
        return compute_token_contributions(
            model, find_block_stacks(model, inputs)[stack], inputs, token
        )


class Tape:
    """What a pass as it is leaves behind, call by call, for passes that are frozen to it."""

    def __init__(self) -> None:
        self.kept: list[Tensor] = []
        self.place: int | None = None
        """In a frozen pass, the next that is due."""

    def due(self, made: Tensor) -> Tensor:
        if self.place is None:
            self.kept.append(made)
            return made
        self.place += 1
        return self.kept[self.place - 1]


def is_norm(module: Any) -> bool:
    return type(module).__name__.endswith("Norm")


def is_activation(module: Any) -> bool:
    name = type(module).__name__
    return any(part in name for part in ("ctivation", "GELU", "SiLU"))


@contextmanager
def frozen_by_hand(model: Any, tape: Tape, gated: bool) -> Iterator[None]:
    """Norms, activations and attention take from the tape what is not linear; written against torch's modules alone."""

    def norm(module: Any, usual: Any, x: Tensor) -> Tensor:
        made = usual(x)
        gain = getattr(module, "weight", None)
        if isinstance(module, torch.nn.LayerNorm):
            centred = x - x.mean(dim=-1, keepdim=True)
            spread = (centred.square().mean(dim=-1, keepdim=True) + module.eps).sqrt()
            return centred / tape.due(spread) * gain + module.bias
        one = torch.ones_like(x)
        scale = (
            usual(one) * (1.0 + module_epsilon(module)) ** 0.5
        )  # the gain, however it is written
        factor = (x.square().mean(dim=-1, keepdim=True) + module_epsilon(module)).rsqrt()
        assert torch.allclose(made, x * factor * scale, rtol=1e-9)
        return x * tape.due(factor) * scale

    def activate(module: Any, usual: Any, x: Tensor) -> Tensor:
        return tape.due(usual(x)) if gated else x * tape.due(usual(x) / x)

    def attend(
        module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: Any = None, **more: Any
    ) -> Any:
        scaling = q.shape[-1] ** -0.5 if scaling is None else scaling
        groups = q.shape[1] // v.shape[1]
        k, v = (side.repeat_interleave(groups, dim=1) for side in (k, v))
        logits = q @ k.transpose(2, 3) * scaling
        bias = more.get("position_bias")
        for addend in (mask, bias):
            logits = logits if addend is None else logits + addend
        weights = tape.due(logits.softmax(dim=-1))
        return (weights @ v).transpose(1, 2), weights

    changed = []
    for module in model.modules():
        if is_norm(module) or is_activation(module):
            around, usual = (norm if is_norm(module) else activate), module.forward
            module.forward = lambda x, a=around, m=module, u=usual: a(m, u, x)
            changed.append(module)
    AttentionInterface.register("by_hand", attend)
    AttentionMaskInterface.register("by_hand", eager_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("by_hand")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
        for module in changed:
            del module.forward


def module_epsilon(module: Any) -> float:
    return float(getattr(module, "variance_epsilon", getattr(module, "eps", 0.0)))


def by_hand(model: Any, inputs: Any, token: int, gated: bool) -> tuple[Tensor, Tensor, Tensor]:
    """c_j [input token, feature], b and y, from one frozen pass for each token alone in the first block's input."""
    first, *_, last = [call.module for call in find_block_stacks(model, inputs)[0].calls]
    states: list[Tensor] = []
    ends: list[Tensor] = []
    change: list[Any] = [lambda x: x]

    def starting(module: Any, args: Any, kwargs: Any) -> Any:
        stream = find_residual_stream_input(args, kwargs)
        assert stream is not None
        states.append(stream)
        return replace_tensor_argument(args, kwargs, stream, change[0](stream))

    def ending(module: Any, args: Any, output: Any) -> None:
        ends.append((output if isinstance(output, Tensor) else output[0])[0, token])

    handles = [
        first.register_forward_pre_hook(starting, with_kwargs=True),
        last.register_forward_hook(ending),
    ]
    tape = Tape()
    with torch.no_grad(), run_in_model_precision(model), frozen_by_hand(model, tape, gated):
        model(**inputs)
        tokens = states[0].shape[1]
        for kept in [(), *((place,) for place in range(tokens))]:
            only = torch.zeros(tokens, 1, dtype=torch.float64)
            only[list(kept)] = 1.0
            change[0] = lambda x, only=only: states[0] * only
            tape.place = 0
            model(**inputs)
    for handle in handles:
        handle.remove()
    state, constants, *alone = ends
    return torch.stack(alone) - constants, constants, state


@pytest.mark.parametrize("token", [-1, 2])
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "gpt_neox", "gemma3", "vit"])
def test_shares_are_those_of_tokens_sent_alone_through_a_network_frozen_by_hand(
    name: str, token: int
) -> None:
    model, inputs = prepared(name)
    from_tokens, constants, state = by_hand(model, inputs, token, name in GATED)
    found = origin(model, inputs, token)
    assert apart(state, from_tokens.sum(dim=0) + constants) < 1e-12
    assert apart(found.state, state) < 1e-12
    assert apart(found.of_constants, constants) < 1e-11
    assert apart(found.of_inputs, from_tokens.sum(dim=0)) < 1e-11
    expected = from_tokens @ state / state.square().sum()
    assert torch.allclose(found.shares, expected, rtol=1e-10, atol=1e-13)
    assert float(expected.abs().max()) > 0.05


def apart(first: Tensor, second: Tensor) -> float:
    return float((first - second).norm() / second.norm().clamp_min(1e-30))


def visible(name: str, layer: int, tokens: int) -> Any:
    behind = np.arange(tokens)[:, None] - np.arange(tokens)
    if name in ("bert", "vit"):
        return np.ones((tokens, tokens))
    window = 4 if name == "gemma3" and layer % 2 == 0 else tokens
    return ((behind >= 0) & (behind < window)).astype(float)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "gpt_neox", "gemma3", "vit"])
def test_rollout_is_a_row_of_the_whole_product(name: str) -> None:
    model, inputs = prepared(name)
    found = origin(model, inputs, -2)
    model.set_attn_implementation("eager")
    with torch.no_grad(), run_in_model_precision(model):
        maps = [layer[0].numpy() for layer in model(**inputs, output_attentions=True).attentions]
    tokens = maps[0].shape[1]
    own = even = np.eye(tokens)
    for layer, heads in enumerate(maps):
        seen = visible(name, layer, tokens)
        own = (heads.mean(axis=0) + np.eye(tokens)) / 2 @ own
        even = (seen / seen.sum(axis=1, keepdims=True) + np.eye(tokens)) / 2 @ even
    assert np.allclose(found.rollout.attention, own[-2], rtol=1e-12, atol=1e-15)
    assert np.allclose(found.rollout.even, even[-2], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("layers", "known"), [(6, 0.217), (12, 0.625), (24, 0.967)])
def test_attention_that_says_nothing_has_a_lift_of_one_and_still_ends_at_token_0(
    layers: int, known: float
) -> None:
    model, inputs = prepared("gpt2", layers=layers, tokens=64)
    for block in model.h:
        block.attn.c_attn.weight[:, :48] = 0.0
        block.attn.c_attn.bias[:48] = 0.0
    rolled = origin(model, inputs, -1).rollout
    assert float(rolled.attention[0]) == pytest.approx(known, abs=5e-4)
    assert torch.allclose(rolled.attention / rolled.even, torch.ones(64).double(), rtol=1e-12)


EVERYWHERE = [name for name in TINY if name != "qwen3_next" and not name.startswith("xlnet")]


@pytest.mark.parametrize("name", EVERYWHERE)
def test_tokens_and_constants_add_up_to_the_state(name: str) -> None:
    model, inputs = prepared(name)
    for stack in range(len(find_block_stacks(model, inputs))):
        found = origin(model, inputs, 1, stack)
        assert apart(found.of_inputs + found.of_constants, found.state) < 1e-12
        square = found.state.square().sum()
        whole = float(found.shares.sum() + found.of_constants @ found.state / square)
        assert whole == pytest.approx(1.0, abs=1e-12)
        assert float(found.rollout.attention.sum()) == pytest.approx(1.0, abs=1e-12)


def test_what_a_token_cannot_see_has_no_share() -> None:
    model, inputs = prepared("gpt2")
    found = origin(model, inputs, 3)
    assert not bool(found.shares[4:].any())
    assert not bool(found.rollout.even[4:].any())


def test_blocks_that_do_not_follow_each_other_are_refused() -> None:
    model, inputs = prepared("gpt2")
    (stack,) = find_block_stacks(model, inputs)
    loose = mock.Mock(joined=False)
    broken = mock.Mock(calls=(*stack.calls[:1], loose))
    broken.name = "h"
    with pytest.raises(InputError, match="something runs between its blocks"):
        compute_token_contributions(model, broken, inputs, 0)
