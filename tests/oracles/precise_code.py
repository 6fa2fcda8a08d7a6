"""A model's own code in arbitrary precision: a tensor of numbers of MPFR in place of its stream.

Nothing is carried apart and nothing is clever: every function is done entry by entry on numbers of so many digits that
what subtraction leaves of a residual still has all of float64's. So it shares no formula with what it checks.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from oracles import network

from attncli.ablation import BlockAnatomy, ablate_sub_blocks
from attncli.capture.attention_function_registry import force_eager_attention
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import (
    BlockFollower,
    BlockStack,
    collect_distinct_blocks,
)
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    find_residual_stream_output,
    replace_tensor_argument,
)
from attncli.networks.ablation_variants import AblationSwitches
from attncli.tensor_subclasses.torch_function_rules import KNOWN_WITHOUT_NUMBERS

OPS: dict[str, Callable[..., Any]] = {}


class Done(Exception):
    """The last block has run."""


class Precise(torch.Tensor):
    """A float64 tensor to all who look at it from outside; inside an object array of numbers of MPFR."""

    values: Any
    number: network.Number

    @staticmethod
    def __new__(cls, values: Any, number: network.Number) -> "Precise":
        made = torch.Tensor._make_wrapper_subclass(cls, values.shape, dtype=torch.float64)
        made.values, made.number = values, number
        return made

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        name = func.__name__
        if name in KNOWN_WITHOUT_NUMBERS:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if name not in OPS:
            raise NotImplementedError(f"{name} in arbitrary precision")
        number = next(x.number for x in tensors((args, kwargs)) if isinstance(x, Precise))
        found = OPS[name](number, *lifted(args, number), **lifted(kwargs or {}, number))
        if found is Ellipsis:  # changed in place
            torch.autograd.graph.increment_version(args[0])
            return args[0]
        if isinstance(found, np.ndarray):
            return Precise(found, number) if found.dtype == object else torch.from_numpy(found)
        if isinstance(found, list):
            return tuple(Precise(part, number) for part in found)
        return found

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return args[0]


def tensors(values: Any) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values]
    if isinstance(values, Mapping):
        values = list(values.values())
    return [x for v in values for x in tensors(v)] if isinstance(values, list | tuple) else []


def lifted(value: Any, number: network.Number) -> Any:
    """Floating tensors as arrays of precise numbers, which hold every float64 exactly."""
    if isinstance(value, Precise):
        return value.values
    if isinstance(value, torch.Tensor):
        array = value.detach().numpy()
        return precise(array, number) if value.is_floating_point() else array
    if isinstance(value, Mapping):
        return {name: lifted(part, number) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(lifted(part, number) for part in value)
    return number.convert(value) if isinstance(value, float) else value


def precise(array: Any, number: network.Number) -> Any:
    found = np.empty(array.shape, dtype=object)
    found.ravel()[:] = [number.convert(value) for value in array.ravel().tolist()]
    return found


def op(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        OPS.update(dict.fromkeys(names, function))
        return function

    return enter


def each(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return np.vectorize(function, otypes=[object])


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y,
    "div": lambda x, y: x / y,
}
for plain_name, binary in BINARY.items():
    for spelling in (plain_name, f"__{plain_name}__"):
        OPS[spelling] = lambda _, x, y, alpha=1, f=binary: f(x, y * alpha if alpha != 1 else y)
    OPS[f"__r{plain_name}__"] = lambda _, x, y, f=binary: f(y, x)

    def write(_: Any, x: Any, y: Any, f: Callable[[Any, Any], Any] = binary) -> Any:
        x[...] = f(x, y)
        return Ellipsis

    OPS[f"{plain_name}_"] = OPS[f"__i{plain_name}__"] = write


@op("neg", "__neg__")
def negative(_: Any, x: Any) -> Any:
    return -x


@op("pow", "__pow__")
def power(_: Any, x: Any, exponent: int) -> Any:
    return x ** int(exponent)


@op("matmul", "__matmul__", "bmm", "mm")
def matmul(_: Any, x: Any, y: Any) -> Any:
    return np.matmul(x, y)


@op("linear")
def linear(_: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    return np.matmul(x, weight.T) + (0 if bias is None else bias)


@op("softmax")
def softmax(number: Any, x: Any, dim: int = -1, **_: Any) -> Any:
    shifted = x - x.max(axis=dim, keepdims=True)
    weights = each(lambda value: number.exp(value) if value > -1e9 else number.convert(0))(shifted)
    return weights / weights.sum(axis=dim, keepdims=True)


@op("layer_norm")
def layer_norm(
    number: Any, x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5, *_: Any
) -> Any:
    rest = x - x.sum(axis=-1, keepdims=True) / x.shape[-1]
    square = (rest * rest).sum(axis=-1, keepdims=True) / x.shape[-1]
    found = rest / each(number.sqrt)(square + number.convert(eps))
    found = found if weight is None else found * weight
    return found if bias is None else found + bias


@op("tanh")
def tanh(number: Any, x: Any) -> Any:
    return each(number.tanh)(x)


@op("sigmoid")
def sigmoid(number: Any, x: Any) -> Any:
    return each(lambda value: 1 / (1 + number.exp(-value)))(x)


@op("silu")
def silu(number: Any, x: Any, inplace: bool = False) -> Any:
    return x * sigmoid(number, x)


@op("relu")
def relu(number: Any, x: Any, inplace: bool = False) -> Any:
    return each(lambda value: max(value, number.convert(0)))(x)


@op("gelu")
def gelu(number: Any, x: Any, approximate: str = "none") -> Any:
    """x Φ(x); the approximation by tanh is another function."""
    if approximate != "none":
        root = number.sqrt(2 / number.pi)
        return x * (1 + tanh(number, (x + x**3 * number.convert(0.044715)) * root)) / 2
    root = number.sqrt(number.convert(2))
    return each(lambda value: value * (1 + number.erf(value / root)) / 2)(x)


@op("rsqrt")
def rsqrt(number: Any, x: Any) -> Any:
    return each(lambda value: 1 / number.sqrt(value))(x)


@op("mean")
def mean(_: Any, x: Any, dim: Any, keepdim: bool = False) -> Any:
    return x.sum(axis=dim, keepdims=keepdim) / x.shape[dim]


@op("sum")
def total(_: Any, x: Any, dim: Any, keepdim: bool = False) -> Any:
    return x.sum(axis=dim, keepdims=keepdim)


@op("topk")
def topk(number: Any, x: Any, k: int, dim: int = -1, *_: Any, **__: Any) -> Any:
    order = np.argsort(-x, axis=dim, kind="stable").take(range(k), axis=dim)
    return torch.return_types.topk(  # type: ignore[attr-defined]
        [Precise(np.take_along_axis(x, order, dim), number), torch.from_numpy(order)]
    )


@op("clamp")
def clamp(_: Any, x: Any, min: Any = None, max: Any = None) -> Any:
    bounded = x if min is None else np.maximum(x, min)
    return bounded if max is None else np.minimum(bounded, max)


@op("index_add_")
def index_add(_: Any, x: Any, dim: int, index: Any, source: Any) -> Any:
    np.add.at(x, (*[slice(None)] * dim, index), source)
    return Ellipsis


@op("flatten")
def flatten(_: Any, x: Any, start: int = 0, end: int = -1) -> Any:
    sizes = [*x.shape[:start], -1, *x.shape[end % x.ndim + 1 :]]
    return x.reshape(sizes)


@op("einsum")
def einsum(_: Any, equation: str, *operands: Any) -> Any:
    return np.einsum(equation, *operands)


@op("max", "amax")
def largest(number: Any, x: Any, dim: int, keepdim: bool = False) -> Any:
    found = x.max(axis=dim, keepdims=keepdim)
    return torch.return_types.max(  # type: ignore[attr-defined]
        [Precise(found, number), torch.from_numpy(np.asarray(x.argmax(axis=dim)))]
    )


@op("view", "reshape")
def reshape(_: Any, x: Any, *shape: Any) -> Any:
    return x.reshape(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)


@op("reshape_as")
def reshape_as(_: Any, x: Any, other: Any) -> Any:
    return x.reshape(other.shape)


@op("transpose")
def transpose(_: Any, x: Any, first: int, second: int) -> Any:
    return np.swapaxes(x, first, second)


@op("permute")
def permute(_: Any, x: Any, *dims: Any) -> Any:
    return x.transpose(dims[0] if len(dims) == 1 else dims)


@op("unsqueeze")
def unsqueeze(_: Any, x: Any, dim: int) -> Any:
    return np.expand_dims(x, dim)


@op("expand")
def expand(_: Any, x: Any, *sizes: Any) -> Any:
    wanted = sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    own = (1,) * (len(wanted) - x.ndim) + x.shape
    return np.broadcast_to(x, [o if w == -1 else w for w, o in zip(wanted, own, strict=True)])


@op(
    "contiguous", "to", "float", "double", "type_as", "type", "dropout", "detach", "view_as",
)  # fmt: skip
def unchanged(_: Any, x: Any, *__: Any, **___: Any) -> Any:
    return x


@op("clone")
def clone(_: Any, x: Any, **__: Any) -> Any:
    return x.copy()


@op("copy_")
def copy(_: Any, x: Any, source: Any, *__: Any) -> Any:
    x[...] = source
    return Ellipsis


@op("zeros_like")
def zeros_like(number: Any, x: Any, *_: Any, **__: Any) -> Any:
    return precise(np.zeros(x.shape), number)


@op("chunk")
def chunk(_: Any, x: Any, chunks: int, dim: int = 0) -> list[Any]:
    return np.array_split(x, chunks, axis=dim)


@op("split")
def split(_: Any, x: Any, size: int, dim: int = 0) -> list[Any]:
    return np.split(x, range(size, x.shape[dim], size), axis=dim)


@op("__getitem__")
def getitem(_: Any, x: Any, index: Any) -> Any:
    return x[index]


@op("cat")
def cat(_: Any, parts: Sequence[Any], dim: int = 0) -> Any:
    return np.concatenate([part for part in parts if part.size], axis=dim)


@op("index_select")
def index_select(_: Any, x: Any, dim: int, index: Any) -> Any:
    return x.take(index, axis=dim)


@op("stack")
def stack(_: Any, parts: Sequence[Any], dim: int = 0) -> Any:
    return np.stack(parts, axis=dim)


@op("masked_fill")
def masked_fill(number: Any, x: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, number.convert(value), x)


@op("result_type")
def result_type(*_: Any) -> torch.dtype:
    return torch.float64


@op("gather")
def gather(_: Any, x: Any, dim: int, index: Any) -> Any:
    return np.take_along_axis(x[tuple(slice(s) for s in index.shape[:-1])], index, axis=dim)


def residuals(
    model: Any,
    anatomy: BlockAnatomy,
    inputs: Mapping[str, Any],
    switches: AblationSwitches,
    digits: int,
) -> dict[str, list[float]]:
    """log10 r at states 0 … L of every stack, by subtraction; what one stack gives another has all digits too."""
    number = network.numbers(digits)
    passing = Passing(anatomy.stacks, number)
    with (
        torch.no_grad(),
        force_eager_attention(model),
        ablate_sub_blocks(model, anatomy, switches),
        wrap_forwards(collect_distinct_blocks(anatomy.stacks), passing.around),
        suppress(Done),
    ):
        model(**inputs)
    return {
        stack_.name: [
            network.log10_residual(x.reshape(-1, x.shape[-1]).tolist(), number) for x in states
        ]
        for stack_, states in passing.states.items()
    }


class Passing:
    """From the first block's input on every stream is precise."""

    def __init__(self, stacks: tuple[BlockStack, ...], number: network.Number) -> None:
        self.following = BlockFollower(stacks)
        self.states: dict[BlockStack, list[Any]] = {stack_: [] for stack_ in stacks}
        self.number = number

    def around(self, forward: Any, module: Any, args: Any, kwargs: Any) -> Any:
        stack_, call = self.following.locate_block_call(module)
        stream = find_residual_stream_input(args, kwargs)
        assert stream is not None
        if call.layer == 0:
            if not isinstance(stream, Precise):
                first = Precise(precise(stream.numpy(), self.number), self.number)
                args, kwargs = replace_tensor_argument(args, kwargs, stream, first)
                stream = first
            self.states[stack_].append(stream.values.copy())
        output = forward(*args, **kwargs)
        state = find_residual_stream_output(output)
        assert isinstance(state, Precise)
        self.states[stack_].append(state.values.copy())
        if all(len(found) > len(each.calls) for each, found in self.states.items()):
            raise Done
        return output
