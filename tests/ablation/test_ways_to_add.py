"""Every way to write a skip addition is recognised exactly or refused."""

import operator
import warnings

import pytest
import torch
from torch import Tensor
from toy_blocks import WIDTH, Block, model_of, some_input

from attncli.ablation import ablate_sub_blocks, recognise_block_anatomy
from attncli.capture.model_structure.blocks import observe_block_states
from attncli.errors import InputError
from attncli.networks.ablation_variants import AblationSwitches


def in_place(x: Tensor, f: Tensor) -> Tensor:
    x = x.clone()
    x += f
    return x


def in_place_on_the_branch(x: Tensor, f: Tensor) -> Tensor:
    f += x
    return f


def in_place_on_the_input(x: Tensor, f: Tensor) -> Tensor:
    return x.add_(f)


def by_side_effect(x: Tensor, f: Tensor) -> Tensor:
    x.add_(f)
    return x


def with_a_bias(x: Tensor, f: Tensor) -> Tensor:
    """The bias takes the stream's shape, and nothing else of it."""
    return x + (f + torch.zeros(1, dtype=f.dtype).expand_as(x))


def in_chunks(x: Tensor, f: Tensor) -> Tensor:
    return torch.cat([a + b for a, b in zip(x.chunk(2, 1), f.chunk(2, 1), strict=True)], 1)


def turned(x: Tensor, f: Tensor) -> Tensor:
    return (x.transpose(0, 1) + f.transpose(0, 1)).transpose(0, 1)


def as_a_list(x: Tensor, f: Tensor) -> Tensor:
    return (x.flatten(0, 1) + f.flatten(0, 1)).view(x.shape)


SCALE = torch.tensor(0.75, dtype=torch.float64)

GAIN = torch.linspace(0.5, 1, WIDTH, dtype=torch.float64)


def gained_in_place(x: Tensor, f: Tensor) -> Tensor:
    x = x.clone()
    x *= GAIN
    return x + f


RECOGNISED = {
    "x + f": (operator.add, 1, 1),
    "f + x": (lambda x, f: f + x, 1, 1),
    "x.add(f)": (Tensor.add, 1, 1),
    "torch.add": (torch.add, 1, 1),
    "by keywords": (lambda x, f: torch.add(input=x, other=f), 1, 1),
    "aten": (torch.ops.aten.add.Tensor, 1, 1),
    "alpha": (lambda x, f: torch.add(x, f, alpha=0.5), 1, 0.5),
    "alpha of the stream": (lambda x, f: f.add(x, alpha=0.5), 0.5, 1),
    "x += f": (in_place, 1, 1),
    "f += x": (in_place_on_the_branch, 1, 1),
    "x.add_(f)": (in_place_on_the_input, 1, 1),
    "x.add_(f) for its effect": (by_side_effect, 1, 1),
    "biased branch": (with_a_bias, 1, 1),
    "sum([x, f])": (lambda x, f: sum([x, f]), 1, 1),
    "scaled stream": (lambda x, f: 0.9 * x + f, 0.9, 1),
    "scaled branch": (lambda x, f: x + f * 0.1, 1, 0.1),
    "scaled by a tensor": (lambda x, f: x * SCALE + f, 0.75, 1),
    "learned gain": (lambda x, f: x * GAIN + f, GAIN, 1),
    "learned gain in place": (gained_in_place, GAIN, 1),
    "divided by a learned gain": (lambda x, f: x / GAIN + f, 1 / GAIN, 1),
    "learned gain of both": (lambda x, f: (x + f) * GAIN, GAIN, GAIN),
    "limits that limit nothing": (lambda x, f: x.clamp(-1e4, 1e4) + f, 1, 1),
    "a mask that hides nothing": (lambda x, f: x * torch.ones_like(x[..., :1]) + f, 1, 1),
    "halved": (lambda x, f: (x + f) / 2, 0.5, 0.5),
    "dropout": (lambda x, f: torch.dropout(f, 0.5, False) + x, 1, 1),
    "other type": (lambda x, f: x.to(torch.complex128).real + f, 1, 1),
    "chunks": (in_chunks, 1, 1),
    "transposed": (turned, 1, 1),
    "flattened": (as_a_list, 1, 1),
}
"""The way, and what it multiplies the stream and the branch by."""


def plus(x: Tensor, f: Tensor) -> Tensor:
    return x + f


with warnings.catch_warnings(action="ignore"):  # deprecated, and still in use
    scripted = torch.jit.script(plus)


def written_out(x: Tensor, f: Tensor) -> Tensor:
    return torch.add(x, f, out=torch.empty_like(x))


def changed_under_another_name(x: Tensor, f: Tensor) -> Tensor:
    y = x.clone()
    alias = y.view(x.shape)
    y.mul_(torch.linspace(0.5, 1, x.shape[-1], dtype=x.dtype))
    return alias + f


ONES = torch.ones((), dtype=torch.float64)

REFUSED = {
    "x - (-f)": lambda x, f: x - (-f),
    "addcmul": lambda x, f: torch.addcmul(x, f, ONES),
    "lerp": lambda x, f: 2 * torch.lerp(x, f, 0.5),
    "stack.sum": lambda x, f: torch.stack([x, f]).sum(0),
    "foreach": lambda x, f: torch._foreach_add([x], [f])[0],
    "jit": scripted,
    "einsum": lambda x, f: torch.einsum("sbtd->btd", torch.stack([x, f])),
    "numpy": lambda x, f: torch.from_numpy(x.numpy() + f.numpy()),
    "out=": written_out,
    "gated by itself": lambda x, f: x * torch.sigmoid(x) + f,
    "limited": lambda x, f: x.clamp(-0.5, 0.5) + f,
    "masked": lambda x, f: x * (torch.arange(x.shape[1], dtype=x.dtype) > 2)[:, None] + f,
    "learned mix under another name": changed_under_another_name,
    "difference": lambda x, f: f + x - f,
    "norm of the sum": lambda x, f: (x + f) / (x + f).norm(dim=-1, keepdim=True),
}


def states(model: torch.nn.Module, switches: AblationSwitches) -> list[Tensor]:
    found = []
    inputs = some_input(tokens=6)
    anatomy = recognise_block_anatomy(model, inputs)
    with (
        observe_block_states(
            model, anatomy.stacks, lambda _, state, hidden: found.append(hidden.clone())
        ),
        ablate_sub_blocks(model, anatomy, switches),
    ):
        model(**inputs)
    return found


@pytest.mark.parametrize("way", RECOGNISED)
def test_recognised_exactly(way: str) -> None:
    add, of_stream, of_branch = RECOGNISED[way]
    model = model_of(lambda: Block(add), layers=1)
    block = model.layers[0]
    x = model.embed(some_input(tokens=6)["x"])
    f = of_branch * block.attention(block.first(x))
    with_skip, without = of_stream * x + f, f
    for switches, expected in [
        (AblationSwitches(mlp=False), of_stream * with_skip),
        (AblationSwitches(skip=False, mlp=False), of_stream * without),
        (AblationSwitches(mlp_skip=False), of_branch * block.mlp(block.second(with_skip))),
        (
            AblationSwitches(skip=False, mlp_skip=False),
            of_branch * block.mlp(block.second(without)),
        ),
        (
            AblationSwitches(norms=False, mlp=False),
            of_stream * (of_stream * x + of_branch * block.attention(x)),
        ),
    ]:
        torch.testing.assert_close(states(model, switches)[1], expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("way", REFUSED)
def test_refused_by_name(way: str) -> None:
    with pytest.raises(InputError, match=r"block 0 of layers \(layers.0, Block\)"):
        states(model_of(lambda: Block(REFUSED[way])), AblationSwitches())
