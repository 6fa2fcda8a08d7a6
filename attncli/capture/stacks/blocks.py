"""The blocks of a model, found by watching where its attention happens, and their true inputs and outputs.

A block is an element of the innermost list of alike modules that contains attention: `T5Block`, not the list of its
sublayers; each `AlbertLayer` of a group. A stack is a sequence of blocks in the order in which they are executed, so a
shared block occurs in it many times.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import nn

from attncli.capture.forward_wrappers import around_forwards
from attncli.capture.stacks.foreign_modules import HeldModule
from attncli.capture.stacks.probe_forward import Call, Probe, probe
from attncli.capture.stacks.residual_stream_arguments import given, taken
from attncli.capture.stacks.stack_names import unique_names
from attncli.capture.stacks.token_layout import as_tokens, batch_size
from attncli.errors import InputError

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
    """Whether its input is made of the block before's output and of constants alone; so it is where both are one."""
    borrows: bool
    """Whether it is given, beside its input, something made from more of earlier states than what the block before
    returned."""
    beside: tuple[int, ...]
    """What else it is given that is made of the block before's output and of constants alone: places among all tensors
    that it is given."""
    bare: bool
    """Whether it is no more than an attention: the innermost module around one."""
    order: int
    """Running index among the block calls of a forward, all stacks together."""
    second: tuple[int, int] | None
    """Where it takes a second stream and gives it back (XLNet's query stream), each a place among all tensors that it is
    given or gives; None where it has one. States are those of the first."""


@dataclass(frozen=True, eq=False)
class Stack:
    """One sequence of blocks, in order of execution: BERT's encoder, T5's decoder."""

    name: str
    """Unique, from the module names: `encoder`, `decoder`, `layers`."""
    calls: tuple[BlockCall, ...]


class Outside(NamedTuple):
    """Something that attends outside every block."""

    name: str
    """Path of the innermost module around it."""
    where: str
    """Before, after or beside which blocks."""
    between: bool
    """Whether it stands between two blocks, the second of which is given something else than the first returned."""


@dataclass(frozen=True)
class Structure:
    """All that the probe of a model shows about its blocks."""

    stacks: tuple[Stack, ...]
    outside: tuple[Outside, ...]
    """What attends outside every block, in order."""


def find_stacks(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[Stack, ...]:
    """The stacks of a model, by one forward on these inputs; a model without attention in blocks is refused."""
    return structure_of(model, inputs).stacks


def stacks_without_attention(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[Stack, ...]:
    """Of a model in which nothing attends: the outermost lists of alike modules that run; none where there are none."""
    seen = probe(model, inputs)
    modules = dict(model.named_modules())
    lists = {call.container for call in seen.calls if call.container is not None}
    alike = {name for name in lists if are_alike(modules[name], set())}
    outer = {name for name in alike if not any(name.startswith(f"{other}.") for other in alike)}
    runs = runs_of([call for call in seen.calls if call.container in outer])
    prefix = {"model", getattr(model, "base_model_prefix", "model")}
    names = unique_names([run[0].container or "" for run in runs], prefix)
    return tuple(stack(name, run, seen) for name, run in zip(names, runs, strict=True))


def structure_of(
    model: nn.Module, inputs: Mapping[str, Any], may_have_none: bool = False
) -> Structure:
    """Stacks, and what attends outside them; `may_have_none`: a model without stacks is understood too."""
    seen = probe(model, inputs)
    containers = block_lists(model, seen)
    loose = {call.container for run in runs_in(seen, containers) for call in unchained(run, seen)}
    containers = block_lists(model, seen, loose) if loose else containers
    runs = runs_in(seen, containers)
    if not runs and not may_have_none:
        raise InputError(
            f"{type(model).__name__} has no list of blocks that attend: nothing here can be followed layer by layer."
        )
    prefix = {"model", getattr(model, "base_model_prefix", "model")}
    names = unique_names([run[0].container or "" for run in runs], prefix)
    stacks = tuple(stack(name, run, seen) for name, run in zip(names, runs, strict=True))
    outside = [
        standing(around[-1].name, moment, stacks)
        for around, moment in zip(seen.attention, seen.moments, strict=True)
        if not any(call.container in containers for call in around)
    ]
    return Structure(stacks, tuple(dict.fromkeys(outside)))


def standing(name: str, moment: int, stacks: tuple[Stack, ...]) -> Outside:
    """Where something that attends outside every block stands; `moment`: how many calls had begun before it."""
    name = name or "the model itself"
    for one in stacks:
        for before, after in pairwise(one.calls):
            if before.order < moment <= after.order and not after.joined:
                where = f"between blocks {before.layer} and {after.layer} of {one.name}"
                return Outside(name, where, True)
    ended = [one for one in stacks if one.calls[-1].order < moment]
    if ended:
        last = max(ended, key=lambda one: one.calls[-1].order)
        return Outside(name, f"after the last block of {last.name}", False)
    due = [one for one in stacks if moment <= one.calls[0].order]
    if due:
        first = min(due, key=lambda one: one.calls[0].order)
        return Outside(name, f"before the first block of {first.name}", False)
    return Outside(name, f"beside the blocks of {stacks[0].name}" if stacks else "alone", False)


def runs_in(seen: Probe, containers: Collection[str | None]) -> list[list[Call]]:
    """The sequences of the calls of elements of these lists."""
    return runs_of([call for call in seen.calls if call.container in containers])


def unchained(run: list[Call], seen: Probe) -> Iterator[Call]:
    """The calls of a sequence that are given more than what the one before gave."""
    known = {call.number for call in run}
    for before, call in pairwise(run):
        follows = call.follows is not None and call.follows == before.result
        if not follows and seen.origins(call.takes, known) != {before.number}:
            yield call


def block_lists(
    model: nn.Module, seen: Probe, loose: Collection[str | None] = ()
) -> set[str | None]:
    """Names of the lists whose elements are blocks: for each attention call the innermost list of alike modules.

    `loose`: lists whose elements do not follow each other, as a layer's two attentions; what is around them is preferred.
    """
    modules = dict(model.named_modules())
    attending = {call.module for around in seen.attention for call in around}
    found: set[str | None] = set()
    for around in seen.attention:
        inside = [call.container for call in reversed(around) if call.container is not None]
        alike = [name for name in inside if are_alike(modules[name], attending)]
        alike = [name for name in alike if name not in loose] or alike
        found.add(alike[0] if alike else inside[-1] if inside else None)
    return found - {None}


def are_alike(container: nn.Module, attending: set[nn.Module]) -> bool:
    """Whether the elements of a list are of one class, or all attend."""
    elements = list(container.children())
    return len({type(element) for element in elements}) == 1 or attending.issuperset(elements)


def runs_of(calls: list[Call]) -> list[list[Call]]:
    """Sequences of calls: one goes on while each takes what the one before gave, or belongs to the same list.

    The same module again, on something else than what the one before gave, begins a new sequence.
    """
    runs: list[list[Call]] = []
    for call in calls:
        last = runs[-1] if runs else []
        follows = bool(last) and call.follows is not None and call.follows == last[-1].result
        again = any(earlier.module is call.module for earlier in last)
        same = bool(last) and call.container == last[-1].container and not again
        if follows or same:
            last.append(call)
        else:
            runs.append([call])
    return runs


def stack(name: str, run: list[Call], seen: Probe) -> Stack:
    """The run as a stack."""
    attending = {call for around in seen.attention for call in around}
    bare = {around[-1] for around in seen.attention}
    known = {call.number for call in run}
    earlier: list[Call | None] = [None, *run[:-1]]
    second = second_stream(run)
    return Stack(
        name,
        tuple(
            block_call(
                layer,
                call,
                before,
                (call in attending, call in bare),
                (1, 1) if call.two_streams else second,
                partial(seen.origins, known=known),
            )
            for layer, (before, call) in enumerate(zip(earlier, run, strict=True))
        ),
    )


def second_stream(run: list[Call]) -> tuple[int, int] | None:
    """Where blocks take what the one before gave beside its stream, and give it: the same two places in all."""
    found = [
        {
            (beside.place, beside.gave[1])
            for beside in call.beside
            if beside.gave and beside.gave[0] == before.number
        }
        for before, call in pairwise(run)
    ]
    places = set[tuple[int, int]].intersection(*found) if found else set()
    return places.pop() if len(places) == 1 else None


def block_call(
    layer: int,
    call: Call,
    before: Call | None,
    attends: tuple[bool, bool],
    second: tuple[int, int] | None,
    origins: Callable[[Iterable[int]], set[int]],
) -> BlockCall:
    """One execution of a block after another.

    `attends`: at all, and by its own code; `origins`: the blocks of the stack that sources lead back to.
    """
    joined = before is None or (call.follows is not None and call.follows == before.result)
    last = {before.number} if before else set()
    others = [beside for beside in call.beside if second is None or beside.place != second[0]]
    lone = {beside.place for beside in others if before and origins(beside.sources) <= last}
    return BlockCall(
        layer,
        call.module,
        call.name,
        attends[0],
        joined,
        joined or origins(call.takes) == last,
        len(lone) < len(others),
        tuple(sorted(lone)),
        attends[1],
        call.number,
        second,
    )


def blocks_of(stacks: tuple[Stack, ...]) -> set[nn.Module]:
    """The blocks, a shared one once."""
    return {call.module for stack in stacks for call in stack.calls}


def named_parts(model: nn.Module, stacks: tuple[Stack, ...]) -> dict[nn.Module, str]:
    """Every module inside the blocks, with its path in the model."""
    inside = {module for block in blocks_of(stacks) for module in block.modules()}
    return {module: name for name, module in model.named_modules() if module in inside}


class Following:
    """Finds, for each call of a block in a later forward, its place among the stacks."""

    def __init__(self, stacks: tuple[Stack, ...]) -> None:
        calls = [(stack, call) for stack in stacks for call in stack.calls]
        self.due = sorted(calls, key=lambda due: due[1].order)
        self.restart()

    def restart(self) -> None:
        """A forward of the model begins."""
        self.done = 0

    def take(self, module: nn.Module) -> tuple[Stack, BlockCall]:
        """The stack and call that begin with this call of a block; another order than the one found is refused."""
        stack, call = self.due[self.done % len(self.due)]
        if call.module is not module:
            raise InputError(
                f"another block ran where {call.name} was to: the order of the blocks depends on the input, "
                "which is not understood."
            )
        self.done += 1
        return stack, call

    def finish(self) -> None:
        """A forward that runs too few blocks, or some twice, is refused."""
        if self.done != len(self.due):
            raise InputError(
                f"{self.done} blocks ran instead of {len(self.due)}: "
                "how many run depends on the input, which is not understood."
            )


@contextmanager
def watching_states(
    model: nn.Module, stacks: tuple[Stack, ...], observe: Observe
) -> Iterator[None]:
    """Within, every forward of `model` hands the true input and output of each block to `observe`; nothing is held.

    The outputs are those of the blocks themselves: `hidden_states[-1]` of many models is what a final norm made of it.
    """
    following = Following(stacks)
    batch = 1

    def around_block(forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        stack, call = following.take(module)
        if call.layer == 0:
            hand_over(stack, 0, taken(args, kwargs), module)
        output = forward(*args, **kwargs)
        hand_over(stack, call.layer + 1, given(output), module)
        return output

    def hand_over(stack: Stack, state: int, hidden: torch.Tensor | None, block: nn.Module) -> None:
        if hidden is None:
            raise InputError(f"stack {stack.name}: state {state} is not a tensor of tokens.")
        with torch._C.DisableTorchFunction():  # what the observer computes is not the model's
            observe(stack.name, state, as_tokens(hidden, batch, block))

    def around_model(forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        nonlocal batch
        batch = 1 if isinstance(module, HeldModule) else batch_size((args, kwargs))
        following.restart()
        output = forward(*args, **kwargs)
        following.finish()
        return output

    with (
        around_forwards([model], around_model),
        around_forwards(blocks_of(stacks), around_block),
    ):
        yield
