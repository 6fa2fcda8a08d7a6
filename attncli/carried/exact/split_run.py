"""Sends a stack of blocks through its own code with the common row and the residual apart."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from attncli.carried.exact import (  # noqa: F401  (they enter their rules)
    choosing,
    convolution,
    einsum,
    fused,
    in_place,
    split_arithmetic,
    split_functions,
    split_shapes,
)
from attncli.carried.exact.handwritten_norms import exact_norms
from attncli.carried.exact.split_tensor import SplitTensor, no_rule, split_of
from attncli.errors import InputError, Unresolved
from attncli.maths.split import Split
from attncli.watching.blocks import Following, Stack, blocks_of
from attncli.watching.capture import eager_everywhere
from attncli.watching.proof import LONGEST, out_of_memory
from attncli.watching.stream_places import given, replaced, taken
from attncli.watching.wrapping import around_forwards

Observe = Callable[[int, Split], None]
"""observe(state 0 … L, X)"""


FAILURES = (AttributeError, LookupError, NotImplementedError, RuntimeError, TypeError, ValueError)
"""What a model's code may raise on a tensor that is not quite one."""


class Arrived(Exception):
    """The last block is done; what the model does with its output is of no interest."""


@contextmanager
def exact_code(model: nn.Module) -> Iterator[None]:
    """Within, the model's own eager attention and its norms take split tensors; to be entered before parts are switched off.

    So whoever switches norms off stands outside of what is done to them here.
    """
    with eager_everywhere(model), exact_norms(model):
        yield


def run_exactly(
    model: nn.Module,
    stack: Stack,
    inputs: Mapping[str, Any],
    observe: Observe,
    stacks: tuple[Stack, ...] = (),
) -> None:
    """One forward pass of the stack; ends early, without an error, where rounding has swallowed the residual.

    `stacks`: all of the model's, to tell which run of a block that several share is this one's.
    """
    passage = SplitPassage(stack, stacks or (stack,), observe)
    try:
        with torch.no_grad(), around_forwards(blocks_of(passage.stacks), passage.around):
            model(**inputs)
    except (Arrived, Unresolved):
        return
    except FAILURES as error:
        if out_of_memory(error):
            raise
        said = next(iter(str(error).splitlines()), "")[:LONGEST]
        why = f"code that fails on it with {type(error).__name__}, {said},"
        raise no_rule(why, where_raised(error)) from error
    raise InputError(f"stack {stack.name} was not run to its end.")


def where_raised(error: Exception) -> str:
    """The last line of a library's model code on the way to an error."""
    places = [
        f"{frame.filename.rpartition('/')[2]} line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "transformers" in frame.filename
    ]
    return places[-1] if places else "no line of transformers"


class SplitPassage:
    """From the first block's input to the last one's output, the stream is a split tensor."""

    def __init__(self, stack: Stack, stacks: tuple[Stack, ...], observe: Observe) -> None:
        self.stack = stack
        self.stacks = stacks
        self.following = Following(stacks)
        self.observe = observe
        self.done = 0

    def around(self, forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        if self.following.take(module)[0] is not self.stack:
            return forward(*args, **kwargs)
        stream = taken(args, kwargs)
        assert stream is not None  # the probe has seen it
        if not isinstance(stream, SplitTensor):
            first = first_state(stream)
            self.observe(0, first.state())
            args, kwargs = replaced(args, kwargs, stream, first)
        output = forward(*args, **kwargs)
        self.done += 1
        state = given(output)
        if not isinstance(state, SplitTensor):
            raise no_rule(f"what {type(module).__name__} does to lose the tokens")
        self.observe(self.done, state.state())
        if self.done == len(self.stack.calls):
            raise Arrived
        return output


def first_state(stream: torch.Tensor) -> SplitTensor:
    """The first block's input: one text's [1, token, feature], [token, 1, feature] or [token, feature]."""
    shape = tuple(stream.shape)
    if stream.device.type == "cpu":
        if stream.dim() == 3 and shape[0] == 1:
            return split_of(stream, axis=1)
        if stream.dim() == 2 or (stream.dim() == 3 and shape[1] == 1):
            return split_of(stream, axis=0)
    raise no_rule(f"states of shape {shape} on {stream.device} instead of one text's on the CPU")
