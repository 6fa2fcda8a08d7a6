"""Sends a stack of blocks through its own code with all path lengths side by side."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attncli.checkpoints.exact.run import Arrived
from attncli.checkpoints.paths import shapes  # noqa: F401  (they enter their rules)
from attncli.checkpoints.paths.attention import attend
from attncli.checkpoints.paths.functions import frozen_modules
from attncli.checkpoints.paths.tensor import PathTensor, Streams, begun
from attncli.checkpoints.streaming.capture import eager_everywhere, in_place_of_eager
from attncli.checkpoints.structure.blocks import Stack
from attncli.checkpoints.structure.stream_places import given, replaced, taken
from attncli.checkpoints.structure.wrapping import around_forwards
from attncli.errors import InputError

GoOn = Callable[[Tensor], Tensor]
"""From the streams [length, token, feature] to what the rest of the model is given in their place [batch, token, feature]."""


class Found(NamedTuple):
    """The last block's output, as it is in the full pass and by path length."""

    output: Tensor
    """[token, feature]"""
    terms: Tensor
    """[length, token, feature]"""
    heads: tuple[int, ...]
    """Of each attention, in order."""


def run_by_length(
    model: nn.Module,
    stack: Stack,
    inputs: Mapping[str, Any],
    count_attention: bool,
    go_on: GoOn | None = None,
) -> tuple[Found, Any]:
    """One forward pass of the stack; with `go_on`, the rest of the model too, whose output comes second."""
    steps = sum(call.attention for call in stack.calls) if count_attention else len(stack.calls)
    passage = Passage(stack, Streams(steps + 1, count_attention), go_on)
    with torch.no_grad():
        found, output = passed(model, passage, inputs)
    check_steps(found, stack, steps, count_attention)
    return found, output


def run_by_head(
    model: nn.Module, stack: Stack, inputs: Mapping[str, Any]
) -> tuple[Tensor, list[Tensor]]:
    """The last block's output Y, and for each attention ⟨C_h, Y⟩/‖Y‖² [head], C_h all paths through that head.

    The frozen network after a head is a linear map G, so ⟨G c_h, Y⟩ = ⟨c_h, G^T Y⟩, and one backward pass gives G^T Y
    for all heads of all layers.
    """
    streams = Streams(0, count_attention=True)
    with torch.enable_grad():
        (output, _, _), _ = passed(model, Passage(stack, streams, None), inputs)
    wanted = output.detach()
    if len(streams.heads) != sum(call.attention for call in stack.calls):
        raise InputError(f"stack {stack.name}: a block attends more than once, or not as expected.")
    back = torch.autograd.grad(output, streams.head_outputs, wanted)
    whole = float(wanted.square().sum())
    pairs = zip(streams.head_outputs, back, strict=True)
    return wanted, [(own.detach() * to_end).sum(dim=(0, 2, 3)) / whole for own, to_end in pairs]


def passed(model: nn.Module, passage: "Passage", inputs: Mapping[str, Any]) -> tuple[Found, Any]:
    """One forward pass, with the stream of the passage in the model's own code."""
    blocks = {call.module for call in passage.stack.calls}
    output = None
    try:
        with (
            eager_everywhere(model),
            in_place_of_eager(attend),
            frozen_modules(model),
            around_forwards(blocks, passage.around),
        ):
            output = model(**inputs)
    except Arrived:
        pass
    except RuntimeError as error:  # torch's word for shapes that do not fit
        raise InputError(
            f"{type(model).__name__} cannot be run with its path lengths as texts of one batch "
            f"({str(error).splitlines()[0]}): this architecture cannot be decomposed."
        ) from error
    if passage.found is None:
        raise InputError(f"stack {passage.stack.name} was not run to its end.")
    return passage.found, output


def check_steps(found: Found, stack: Stack, steps: int, count_attention: bool) -> None:
    """As many steps were seen as there are blocks to make them, so that no length is another one's."""
    seen = len(found.heads) if count_attention else steps
    if seen != steps or not bool(found.terms[-1].any()):
        raise InputError(
            f"stack {stack.name}: {steps} blocks make {'attention' if count_attention else 'MLP'} steps, but not just "
            "one each: their paths have no length that is understood here."
        )


class Passage:
    """From the first block's input to the last one's output, the stream is a path tensor."""

    def __init__(self, stack: Stack, streams: Streams, go_on: GoOn | None) -> None:
        self.stack = stack
        self.streams = streams
        self.go_on = go_on
        self.done = 0
        self.found: Found | None = None

    def around(self, forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        stream = taken(args, kwargs)
        if stream is None:
            raise InputError(f"{type(module).__name__} is given no stream of tokens.")
        if not isinstance(stream, PathTensor):
            args, kwargs = replaced(args, kwargs, stream, self.begin(stream, module))
        output = forward(*args, **kwargs)
        self.done += 1
        if self.done < len(self.stack.calls):
            return output
        state = given(output)
        if not isinstance(state, PathTensor) or state.dim() != 3:
            raise InputError(f"attn paths lost the stream in {type(module).__name__}.")
        self.found = Found(state.numbers[0], state.numbers[1:], tuple(self.streams.heads))
        if self.go_on is None:
            raise Arrived
        rest = self.go_on(self.found.terms)
        return (
            tuple(rest if part is state else part for part in output)
            if isinstance(output, tuple)
            else rest
        )

    def begin(self, stream: Tensor, module: nn.Module) -> PathTensor:
        if self.done or stream.dim() != 3 or stream.shape[0] != 1:
            raise InputError(
                f"attn paths needs one text's states [1, token, feature] through all blocks, which "
                f"{type(module).__name__} does not take."
            )
        started = begun(stream, self.streams)
        started.numbers.requires_grad_(torch.is_grad_enabled())
        return started
