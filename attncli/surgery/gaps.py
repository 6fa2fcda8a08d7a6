"""Forwards that prove what lies between blocks: nothing, or what is made of the last block's output alone.

That tags see nothing else come in is no proof: here the numbers themselves are changed. Where blocks follow each other,
each must be given the very numbers that the one before gave. Where something stands between, every block's output is
replaced by noise, then some of these by other noise: what a block is given must not change as long as the output
right before it stays.
"""

from collections.abc import Callable, Mapping
from itertools import count, pairwise
from typing import Any

import torch
from torch import nn

from attncli.errors import InputError
from attncli.surgery.guards import described
from attncli.surgery.proofs import same_chance
from attncli.watching.blocks import BlockCall, Following, Stack, blocks_of
from attncli.watching.stream_places import given, given_instead, taken
from attncli.watching.wrapping import around_forwards

Replace = Callable[[int, torch.Tensor], torch.Tensor]
"""replace(order of the call, its output): what the model goes on with."""
Taken = dict[BlockCall, torch.Tensor]
"""What every block was given."""
Gap = tuple[str, BlockCall, BlockCall]
"""Name of the stack, and the blocks before and after."""


def check_between(model: nn.Module, inputs: Mapping[str, Any], stacks: tuple[Stack, ...]) -> None:
    """Refuse a model in which more passes from block to block than the state that one returns."""
    outputs: dict[int, torch.Tensor] = {}

    def keep(order: int, output: torch.Tensor) -> torch.Tensor:
        outputs[order] = output.clone()
        return output

    plain = run(model, inputs, stacks, keep)
    pairs = [(stack.name, *pair) for stack in stacks for pair in pairwise(stack.calls)]
    for name, before, after in pairs:
        if after.joined and not torch.equal(plain[after], outputs[before.order]):
            refuse(name, after)
    gaps = [(name, before, after) for name, before, after in pairs if not after.joined]
    if gaps:
        check_gaps(model, inputs, stacks, gaps)


def check_gaps(
    model: nn.Module, inputs: Mapping[str, Any], stacks: tuple[Stack, ...], gaps: list[Gap]
) -> None:
    """What stands between two blocks depends on the first one's output, and on nothing else that a text changes.

    Which outputs change together are the digits of their numbers: any two outputs differ in one, so that in one of the
    runs the one changes while the other stays.
    """
    numbers = dict(zip(sorted(c.order for stack in stacks for c in stack.calls), count()))
    first = NoiseInPlace(numbers, set(numbers))
    always = run(model, inputs, stacks, first.replace)
    for digit in range(max(numbers.values()).bit_length()):
        for stays in (0, 1):
            same = {order for order, number in numbers.items() if number >> digit & 1 == stays}
            found = run(model, inputs, stacks, NoiseInPlace(numbers, same).replace)
            compare([gap for gap in gaps if gap[1].order in same], always, found)
    compare(gaps, always, run(model, shifted(inputs), stacks, first.replace))


class NoiseInPlace:
    """What stands in the place of outputs: the first noise of those that stay the same, the second of the others."""

    def __init__(self, numbers: Mapping[int, int], same: set[int]) -> None:
        self.numbers = numbers
        self.same = same

    def replace(self, order: int, output: torch.Tensor) -> torch.Tensor:
        """Always the same numbers for one output, whatever is drawn elsewhere."""
        seed = 2 * self.numbers[order] + (order not in self.same)
        drawn = torch.randn(
            output.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        return drawn.to(output)


def compare(gaps: list[Gap], one: Taken, other: Taken) -> None:
    """The blocks after these gaps are given the same in two runs."""
    for name, _, after in gaps:
        if not (one[after].isfinite().all() and torch.equal(one[after], other[after])):
            refuse(name, after)


def refuse(stack: str, call: BlockCall) -> None:
    raise InputError(
        f"{described(stack, call)} is given more than the output of the block before it makes: "
        "what happens between them is not understood."
    )


def shifted(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Another input of the same shapes and of the same numbers, in other places."""
    return {
        name: value.roll(1, -1) if isinstance(value, torch.Tensor) and value.ndim else value
        for name, value in inputs.items()
    }


def run(
    model: nn.Module, inputs: Mapping[str, Any], stacks: tuple[Stack, ...], replace: Replace
) -> Taken:
    """One forward in which every block's output is replaced; what the blocks were given."""
    following = Following(stacks)
    found: Taken = {}

    def around_block(forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        _, call = following.take(module)
        stream = taken(args, kwargs)
        assert stream is not None  # the tracked forward before has refused what has none
        found[call] = stream.clone()
        output = forward(*args, **kwargs)
        left = given(output)
        assert left is not None
        return given_instead(output, left, replace(call.order, left))

    with same_chance(), torch.no_grad(), around_forwards(blocks_of(stacks), around_block):
        model(**inputs)
    return found
