"""A model whose blocks compute with perturbed last bits: a second sample of its rounding.

Inside the blocks every number that a function computes loses one last bit or keeps it, at random and apart for every
token and feature. That is as much as rounding takes anyway, and it makes every later sum and function round anew: what
two such passes agree in is known, and what they differ in is rounding, in its own size, whatever the width, the depth,
the length or the common row have made of it. What is computed from whole numbers alone is left as it is: positions are
known, and the class of a distance (T5, DeBERTa) must not fall to its neighbour because a logarithm lost a bit.

Why not less: a block that is only *given* other last bits rounds the same where it adds something large on its way (a
bias of 10^4 that a norm takes out again), because what was disturbed is far below what is rounded there. Why not sums in
another order: tokens that coincide to the last bit would stay so. Why a bit is taken and none added: the smallest number
of a type, by which masks hide keys, must not leave it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.capture.attention_calls import (
    ASKING,
    iter_nested_tensors,
    read_tensor_version,
    read_torch_function_name,
    unseen,
)
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import BlockStack, collect_distinct_blocks
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    replace_tensor_argument,
)
from attncli.forward_argument_types import Args, Function, Kwargs, Output

MOVING = frozenset(
    {
        "__getitem__", "bfloat16", "cat", "clone", "concat", "contiguous", "double", "dropout", "embedding", "expand",
        "flip", "float", "gather", "half", "index_select", "pad", "repeat", "repeat_interleave", "reshape", "roll",
        "stack", "to", "type", "type_as",
    }
)  # fmt: skip
"""Functions that move numbers and compute none."""

COUNTED = "_attn_counted"
"""Attribute of tensors computed from whole numbers: their version at that moment."""

GLANCE = 64
"""How many numbers of a result are examined to recognise masks and choices."""


class RoundingPerturbation(TorchFunctionMode):
    """Perturbs the last bits of functions' results; the same ones in every run of a command."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(0)

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        result = func(*args, **(kwargs or {}))
        if func in ASKING:
            return result
        with unseen():
            if all(map(is_integer_valued_tensor, iter_nested_tensors((args, kwargs)))):
                mark_integer_valued_tensors(result)
                return result
        name = read_torch_function_name(func)
        if name in MOVING:
            return result
        if type(result) is tuple:
            return tuple(
                self.perturb_function_result(name, part, (args, kwargs)) for part in result
            )
        return self.perturb_function_result(name, result, (args, kwargs))

    def perturb_function_result(self, name: str, result: Output, value: object) -> Output:
        """Perturb what a function returns, if it computed it."""
        with unseen():
            if (
                type(result) is not Tensor
                or not result.is_floating_point()
                or could_be_mask_tensor(result)
            ):
                return result
            shared = does_result_share_argument_storage(result, value)
        if not shared:
            return self.perturb_last_bits(result)
        written = name.endswith("_") and (not name.endswith("__") or name.startswith("__i"))
        return result.copy_(self.perturb_last_bits(result)) if written else result

    def perturb_last_bits(self, numbers: Tensor) -> Tensor:
        """Perturb a tensor: each x stays, or becomes x (1 - ε/2), its neighbour towards 0."""
        with unseen():
            draws = torch.randint(0, 2, numbers.shape, generator=self.generator, dtype=torch.int8)
            half = torch.finfo(numbers.dtype).eps / 2
            factors = 1 - half * draws.to(numbers.device, numbers.dtype)
        return numbers * factors


def is_integer_valued_tensor(numbers: Tensor) -> bool:
    """Whether numbers are whole, or computed from such alone and not written to since."""
    if not numbers.is_floating_point():
        return True
    version = getattr(numbers, COUNTED, None)
    return version is not None and bool(version == read_tensor_version(numbers))


def mark_integer_valued_tensors(result: Output) -> None:
    for part in iter_nested_tensors(result):
        if part.is_floating_point():
            setattr(part, COUNTED, read_tensor_version(part))


def could_be_mask_tensor(numbers: Tensor) -> bool:
    """Whether all are 0, 1 or large enough to mask what they are added to: 1 - mask must stay 0."""
    some = numbers.reshape(-1)[:GLANCE] if numbers.is_contiguous() else numbers[..., :GLANCE]
    size = some.abs()
    return bool(((size == 0) | (size == 1) | (size > torch.finfo(size.dtype).max / 2)).all())


def does_result_share_argument_storage(result: Tensor, value: object) -> bool:
    """Whether a function returned one of its arguments, or a view of one."""
    storage = result.untyped_storage().data_ptr()
    return any(
        tensor.untyped_storage().data_ptr() == storage for tensor in iter_nested_tensors(value)
    )


@contextmanager
def perturb_rounding(stacks: tuple[BlockStack, ...]) -> Iterator[None]:
    """Within, every block computes with perturbed last bits; enter it last, so that observers see perturbed results."""
    disturbance = RoundingPerturbation()

    def run_forward_with_perturbed_rounding(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        stream = find_residual_stream_input(args, kwargs)
        if stream is not None:
            args, kwargs = replace_tensor_argument(
                args, kwargs, stream, disturbance.perturb_last_bits(stream)
            )
        with disturbance:
            return forward(*args, **kwargs)

    with wrap_forwards(collect_distinct_blocks(stacks), run_forward_with_perturbed_rounding):
        yield
