"""The blocks of a model, found where its attention runs, and their true inputs and outputs.

A block is an element of the innermost list of alike modules that contains attention: `T5Block`, not the list of its
sublayers; each `AlbertLayer` of a group. A stack is a sequence of blocks in the order in which they are executed, so a
shared block occurs in it many times.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn

from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.block_stack_names import choose_unique_block_stack_names
from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.capture.model_structure.probe_forward import ModuleCall, ProbeResult, probe_forward
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    find_residual_stream_output,
    read_batch_size,
    reshape_to_batch_token_feature,
)
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output

Observe = Callable[[str, int, torch.Tensor], None]
"""observe(stack name, state, hidden [batch, token, feature]): state 0 is the first block's input, l + 1 block l's output."""


@dataclass(frozen=True, eq=False)
class BlockCall:
    """One execution of a block."""

    layer: int
    """Running index in its stack."""
    module: nn.Module
    name: str
    """Path of the module in the model."""
    attention: bool
    """Whether the block attends; a hybrid's recurrent or convolutional layers do not."""
    joined: bool
    """Whether its input is the block before's output, unchanged; always so for the first."""
    alone: bool
    """Whether its input depends only on the block before's output and on constants; true where they are one."""
    borrows: bool
    """Whether another argument depends on more earlier states than what the block before returned."""
    extra_arguments: tuple[int, ...]
    """Extra arguments that depend only on the block before's output and constants: positions among all its tensor arguments."""
    bare: bool
    """Whether it is only an attention: the innermost module around one."""
    order: int
    """Running index among the block calls of a forward, all stacks together."""
    second: tuple[int, int] | None
    """Positions of a second stream (XLNet's query stream) in arguments and results; states are the first's."""


@dataclass(frozen=True, eq=False)
class BlockStack:
    """One sequence of blocks, in order of execution: BERT's encoder, T5's decoder."""

    name: str
    """Unique, from the module names: `encoder`, `decoder`, `layers`."""
    calls: tuple[BlockCall, ...]


class AttentionOutsideBlocks(NamedTuple):
    """An attention outside every block."""

    name: str
    """Path of the innermost module around it."""
    where: str
    """Before, after or alongside which blocks."""
    between: bool
    """Whether it is between two blocks, where the second takes another input than the first's output."""


@dataclass(frozen=True)
class ModelStructure:
    """The structure of a model's blocks, as the probe shows it."""

    stacks: tuple[BlockStack, ...]
    outside: tuple[AttentionOutsideBlocks, ...]
    """Attention outside every block, in order."""


def find_block_stacks(model: nn.Module, inputs: Inputs) -> tuple[BlockStack, ...]:
    """Find the stacks of a model by one forward on these inputs; a model without attention in blocks is refused."""
    return build_model_structure(model, probe_forward(model, inputs), False).stacks


def find_attention_free_block_stacks(model: nn.Module, inputs: Inputs) -> tuple[BlockStack, ...]:
    """Find stacks in a model without attention: its outermost lists of alike modules that run."""
    return build_attention_free_block_stacks(model, probe_forward(model, inputs))


def build_attention_free_block_stacks(
    model: nn.Module, seen: ProbeResult
) -> tuple[BlockStack, ...]:
    """The outermost lists of alike modules that ran in a recorded forward."""
    modules = dict(model.named_modules())
    lists = {call.container for call in seen.calls if call.container is not None}
    alike = {name for name in lists if are_blocks_alike(modules[name], set())}
    outer = {name for name in alike if not any(name.startswith(f"{other}.") for other in alike)}
    runs = find_block_call_sequences(seen, outer)
    prefix = {"model", getattr(model, "base_model_prefix", "model")}
    names = choose_unique_block_stack_names([run[0].container or "" for run in runs], prefix)
    return tuple(make_block_stack(name, run, seen) for name, run in zip(names, runs, strict=True))


def build_model_structure(
    model: nn.Module, seen: ProbeResult, may_have_none: bool = False
) -> ModelStructure:
    """The stacks, and the attention outside them, in a recorded forward."""
    containers = find_block_lists(model, seen)
    loose = {
        call.container
        for run in find_block_call_sequences(seen, containers)
        for call in iter_block_calls_with_extra_input(run, seen)
    }
    containers = find_block_lists(model, seen, loose) if loose else containers
    runs = find_block_call_sequences(seen, containers)
    if not runs and not may_have_none:
        raise InputError(
            f"{type(model).__name__} has no list of blocks that attend: nothing here can be followed layer by layer."
        )
    prefix = {"model", getattr(model, "base_model_prefix", "model")}
    names = choose_unique_block_stack_names([run[0].container or "" for run in runs], prefix)
    stacks = tuple(make_block_stack(name, run, seen) for name, run in zip(names, runs, strict=True))
    outside = [
        locate_attention_outside_blocks(around[-1].name, moment, stacks)
        for around, moment in zip(seen.attention, seen.moments, strict=True)
        if not any(call.container in containers for call in around)
    ]
    return ModelStructure(stacks, tuple(dict.fromkeys(outside)))


def locate_attention_outside_blocks(
    name: str, moment: int, stacks: tuple[BlockStack, ...]
) -> AttentionOutsideBlocks:
    """Locate an attention outside every block; `moment`: how many calls began before it."""
    name = name or "the model itself"
    for one in stacks:
        for before, after in pairwise(one.calls):
            if before.order < moment <= after.order and not after.joined:
                where = f"between blocks {before.layer} and {after.layer} of {one.name}"
                return AttentionOutsideBlocks(name, where, True)
    ended = [one for one in stacks if one.calls[-1].order < moment]
    if ended:
        last = max(ended, key=lambda one: one.calls[-1].order)
        return AttentionOutsideBlocks(name, f"after the last block of {last.name}", False)
    due = [one for one in stacks if moment <= one.calls[0].order]
    if due:
        first = min(due, key=lambda one: one.calls[0].order)
        return AttentionOutsideBlocks(name, f"before the first block of {first.name}", False)
    return AttentionOutsideBlocks(
        name, f"beside the blocks of {stacks[0].name}" if stacks else "alone", False
    )


def iter_block_calls_with_extra_input(
    run: list[ModuleCall], seen: ProbeResult
) -> Iterator[ModuleCall]:
    """Iterate over calls of a sequence whose input is more than the output of the call before."""
    known = {call.number for call in run}
    for before, call in pairwise(run):
        follows = call.follows is not None and call.follows == before.result
        if not follows and seen.trace_inputs_to_module_calls(call.takes, known) != {before.number}:
            yield call


def find_block_lists(
    model: nn.Module, seen: ProbeResult, loose: Collection[str | None] = ()
) -> set[str | None]:
    """Names of the lists whose elements are blocks: for each attention call the innermost list of alike modules.

    `loose`: lists whose elements do not follow each other, as a layer's two attentions; what is around them is preferred.
    """
    modules = dict(model.named_modules())
    attending = {call.module for around in seen.attention for call in around}
    found: set[str | None] = set()
    for around in seen.attention:
        inside = [call.container for call in reversed(around) if call.container is not None]
        alike = [name for name in inside if are_blocks_alike(modules[name], attending)]
        alike = [name for name in alike if name not in loose] or alike
        found.add(alike[0] if alike else inside[-1] if inside else None)
    return found - {None}


def are_blocks_alike(container: nn.Module, attending: set[nn.Module]) -> bool:
    """Whether the elements of a list are of one class, or all attend."""
    elements = list(container.children())
    return len({type(element) for element in elements}) == 1 or attending.issuperset(elements)


def find_block_call_sequences(
    seen: ProbeResult, containers: Collection[str | None]
) -> list[list[ModuleCall]]:
    """The sequences of calls of these lists' elements: one goes on while each call takes the previous output, or is of the
    same list.

    The same module again, on another input than the previous output, begins a new sequence.
    """
    runs: list[list[ModuleCall]] = []
    for call in seen.calls:
        if call.container not in containers:
            continue
        last = runs[-1] if runs else []
        follows = bool(last) and call.follows is not None and call.follows == last[-1].result
        again = any(earlier.module is call.module for earlier in last)
        same = bool(last) and call.container == last[-1].container and not again
        if follows or same:
            last.append(call)
        else:
            runs.append([call])
    return runs


def make_block_stack(name: str, run: list[ModuleCall], seen: ProbeResult) -> BlockStack:
    """Make a stack of a run of calls."""
    attending = {call for around in seen.attention for call in around}
    bare = {around[-1] for around in seen.attention}
    known = {call.number for call in run}
    earlier: list[ModuleCall | None] = [None, *run[:-1]]
    second = find_second_residual_stream(run)
    return BlockStack(
        name,
        tuple(
            make_block_call(
                layer,
                call,
                before,
                (call in attending, call in bare),
                (1, 1) if call.two_streams else second,
                partial(seen.trace_inputs_to_module_calls, known=known),
            )
            for layer, (before, call) in enumerate(zip(earlier, run, strict=True))
        ),
    )


def find_second_residual_stream(run: list[ModuleCall]) -> tuple[int, int] | None:
    """Find the arguments and results that are a second stream: the same two positions in all blocks."""
    found = [
        {
            (extra.place, extra.gave[1])
            for extra in call.extra_tensors
            if extra.gave and extra.gave[0] == before.number
        }
        for before, call in pairwise(run)
    ]
    places = set[tuple[int, int]].intersection(*found) if found else set()
    return places.pop() if len(places) == 1 else None


def make_block_call(
    layer: int,
    call: ModuleCall,
    before: ModuleCall | None,
    attends: tuple[bool, bool],
    second: tuple[int, int] | None,
    origins: Callable[[Iterable[int]], set[int]],
) -> BlockCall:
    """Make BlockCalls, one for each execution of a block.

    `attends`: at all, and by its own code; `origins`: the blocks of the stack that sources lead back to.
    """
    joined = before is None or (call.follows is not None and call.follows == before.result)
    last = {before.number} if before else set()
    others = [extra for extra in call.extra_tensors if second is None or extra.place != second[0]]
    lone = {extra.place for extra in others if before and origins(extra.sources) <= last}
    return BlockCall(
        layer,
        call.module,
        call.name,
        attends[0],
        joined,
        alone=joined or origins(call.takes) == last,
        borrows=len(lone) < len(others),
        extra_arguments=tuple(sorted(lone)),
        bare=attends[1],
        order=call.number,
        second=second,
    )


def collect_distinct_blocks(stacks: tuple[BlockStack, ...]) -> set[nn.Module]:
    """The distinct blocks: a shared one once."""
    return {call.module for stack in stacks for call in stack.calls}


def map_block_modules_to_paths(
    model: nn.Module, stacks: tuple[BlockStack, ...]
) -> dict[nn.Module, str]:
    """Map every module inside the blocks to its path in the model."""
    inside = {module for block in collect_distinct_blocks(stacks) for module in block.modules()}
    return {module: name for name, module in model.named_modules() if module in inside}


class BlockFollower:
    """Locates each call of a block in a later forward among the stacks."""

    def __init__(self, stacks: tuple[BlockStack, ...]) -> None:
        calls = [(stack, call) for stack in stacks for call in stack.calls]
        self.due = sorted(calls, key=lambda due: due[1].order)
        self.done = 0
        """Calls in the current forward, which begins with none."""

    def locate_block_call(self, module: nn.Module) -> tuple[BlockStack, BlockCall]:
        """The stack and call that begin with this call of a block; refuse another order than the one found."""
        stack, call = self.due[self.done % len(self.due)]
        if call.module is not module:
            raise InputError(
                f"another block ran where {call.name} was to: the order of the blocks depends on the input, "
                "which is not understood."
            )
        self.done += 1
        return stack, call

    def require_all_blocks_ran(self) -> None:
        """Refuse a forward that ran too few blocks, or some twice."""
        if self.done != len(self.due):
            raise InputError(
                f"{self.done} blocks ran instead of {len(self.due)}: "
                "how many run depends on the input, which is not understood."
            )


@contextmanager
def observe_block_states(
    model: nn.Module, stacks: tuple[BlockStack, ...], observe: Observe
) -> Iterator[None]:
    """Within, every forward passes each block's true input and output to `observe`, and keeps none.

    The outputs are those of the blocks themselves: `hidden_states[-1]` of many models is what a final norm made of it.
    """
    following = BlockFollower(stacks)
    batch = 1

    def run_block_and_observe_states(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        stack, call = following.locate_block_call(module)
        if call.layer == 0:
            observe_residual_stream_state(
                stack, 0, find_residual_stream_input(args, kwargs), module
            )
        output = forward(*args, **kwargs)
        observe_residual_stream_state(
            stack, call.layer + 1, find_residual_stream_output(output), module
        )
        return output

    def observe_residual_stream_state(
        stack: BlockStack, state: int, hidden: torch.Tensor | None, block: nn.Module
    ) -> None:
        if hidden is None:
            raise InputError(f"stack {stack.name}: state {state} is not a tensor of tokens.")
        with torch._C.DisableTorchFunction():  # the observer's own computation is not the model's
            observe(stack.name, state, reshape_to_batch_token_feature(hidden, batch, block))

    def run_model_and_check_blocks(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        nonlocal batch
        batch = 1 if isinstance(module, ForeignModule) else read_batch_size((args, kwargs))
        following.done = 0
        output = forward(*args, **kwargs)
        following.require_all_blocks_ran()
        return output

    with (
        wrap_forwards([model], run_model_and_check_blocks),
        wrap_forwards(collect_distinct_blocks(stacks), run_block_and_observe_states),
    ):
        yield
