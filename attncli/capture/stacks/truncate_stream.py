"""Streams cut to their first tokens where a stack takes them in: short inputs for models whose images or sounds have one size.

What the blocks then show is shown to whatever proves something of them: proofs compare passes that are cut alike. Blocks
that know how many tokens there are (windows, one bias for every pair) fail on fewer, or go another way; such a model is not
cut. Every later run checks that its blocks take the path that was seen here.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn

from attncli.capture.stacks.blocks import Stack, find_stacks
from attncli.capture.stacks.residual_stream_arguments import find_stream_input, replace_argument

LONGER = 4
"""Streams of so many times the tokens are worth cutting."""


@dataclass(frozen=True)
class StreamTruncation:
    """The blocks whose streams are cut, and to how many tokens."""

    blocks: tuple[nn.Module, ...] = ()
    tokens: int = 0

    @contextmanager
    def streams(self) -> Iterator[None]:
        """Within, the first blocks are given their first tokens alone, and whoever watches sees it so."""
        with ExitStack() as hooks:
            for block in self.blocks:
                handle = block.register_forward_pre_hook(
                    partial(truncate_arguments, self.tokens), with_kwargs=True, prepend=True
                )
                hooks.callback(handle.remove)
            yield


def truncate_arguments(tokens: int, _: nn.Module, args: Any, kwargs: Any) -> Any:
    """A block's arguments with fewer tokens."""
    stream = find_stream_input(args, kwargs)
    if stream is None or stream.shape[1] <= tokens:
        return None
    return replace_argument(args, kwargs, stream, stream[:, :tokens])


def find_truncation(
    model: nn.Module,
    inputs: Mapping[str, Any],
    tokens: int,
    try_it: Callable[[nn.Module, Mapping[str, Any]], bool],
) -> StreamTruncation:
    """Where the streams of this input can be cut; nowhere, if the model does not run so or shows other blocks."""
    seen: dict[nn.Module, tuple[int, ...]] = {}

    def remember(module: nn.Module, args: Any, kwargs: Any) -> None:
        stream = find_stream_input(args, kwargs)
        seen.setdefault(module, () if stream is None else tuple(stream.shape))

    with ExitStack() as hooks:
        for module in model.modules():
            handle = module.register_forward_pre_hook(remember, with_kwargs=True)
            hooks.callback(handle.remove)
        stacks = find_stacks(model, inputs)
    first = dict.fromkeys(stack.calls[0].module for stack in stacks)
    long = (block for block in first if exceeds_tokens(seen[block], tokens))
    cut = StreamTruncation(tuple(long), tokens)
    if not cut.blocks:
        return cut
    with cut.streams():
        same = try_it(model, inputs) and structure_signature(
            find_stacks(model, inputs)
        ) == structure_signature(stacks)
    return cut if same else StreamTruncation()


def exceeds_tokens(shape: tuple[int, ...], tokens: int) -> bool:
    """Of one item's [1, token, feature]."""
    return len(shape) == 3 and shape[0] == 1 and shape[1] > LONGER * tokens


def structure_signature(stacks: tuple[Stack, ...]) -> list[Any]:
    """All that was found of the blocks."""
    return [(stack.name, [vars(call) for call in stack.calls]) for stack in stacks]
