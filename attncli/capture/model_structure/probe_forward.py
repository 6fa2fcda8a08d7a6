"""Probe one forward pass: which list elements are called, and inside which of them attention runs."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import nn

from attncli.capture.attention_calls import INPUT, AttentionTracer, iter_nested_tensors
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    find_residual_stream_output,
    find_second_residual_stream_tensor,
)
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output

LISTS = (nn.ModuleList, nn.Sequential)


class ExtraTensor(NamedTuple):
    """A tensor argument of a call in addition to its residual stream."""

    place: int
    """Its position among all tensor arguments."""
    sources: frozenset[int]
    """Numbers of the calls whose results it descends from directly."""
    gave: tuple[int, int] | None
    """Number of the call that returned this very tensor as an extra result, and its position there."""


@dataclass(eq=False)
class ModuleCall:
    """One call of a module."""

    module: nn.Module
    name: str
    number: int
    container: str | None
    """Name of the list that the module is an element of."""
    result: int | None = None
    """Number of the innermost call whose output this one returns: its own where it changes it."""
    follows: int | None = None
    """`result` of the call whose output is this one's unchanged input."""
    extra_tensors: tuple[ExtraTensor, ...] = ()
    """Extra tensor arguments that descend from what elements of its list received."""
    two_streams: bool = False
    """Whether it takes and returns a second stream."""
    takes: frozenset[int] = frozenset()
    """Numbers of the calls whose results its stream descends from directly."""
    made_of: frozenset[int] = frozenset()
    """Numbers of the calls whose results its output descends from directly."""


@dataclass(eq=False)
class ProbeResult:
    """The record of one forward."""

    calls: list[ModuleCall] = field(default_factory=list)
    """Calls of list elements, in order."""
    attention: list[tuple[ModuleCall, ...]] = field(default_factory=list)
    """For each attention call, the open calls around it, outermost first."""
    moments: list[int] = field(default_factory=list)
    """For each attention call, the number of list-element calls that began before it."""
    ran: set[nn.Module] = field(default_factory=set)
    """The modules that were called."""

    def trace_inputs_to_module_calls(
        self, sources: Iterable[int], known: Collection[int]
    ) -> set[int]:
        """Trace sources back to calls among the `known`, and to the model's input."""
        found, waiting = set[int](), list(sources)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                if number != INPUT and number not in known:
                    waiting += self.calls[number].made_of
        return {number for number in found if number == INPUT or number in known}


class ForwardProber:
    """Tracks the open calls while a forward runs."""

    def __init__(self, model: nn.Module) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.containers = {
            child: name
            for name, module in model.named_modules()
            if isinstance(module, LISTS)
            for child in module.children()
        }
        self.open: list[ModuleCall] = []
        self.result = ProbeResult()
        self.watch = AttentionTracer(self.record_attention_call)

    def record_attention_call(self) -> None:
        """Record an attention call."""
        self.result.attention.append(tuple(self.open))
        self.result.moments.append(len(self.result.calls))

    def run_and_record_forward(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        """Wrap one call of any module."""
        self.result.ran.add(module)
        container = self.containers.get(module)
        call = ModuleCall(module, self.names[module], len(self.result.calls), container)
        self.open.append(call)
        if container is not None:
            self.record_module_call_start(
                call,
                find_residual_stream_input(args, kwargs),
                list(iter_nested_tensors((args, kwargs))),
            )
        try:
            output = forward(*args, **kwargs)
        finally:
            self.open.pop()
        if container is not None:
            one, other = (
                find_second_residual_stream_tensor(args),
                find_second_residual_stream_tensor(output),
            )
            call.two_streams = one is not None and other is not None and one.shape == other.shape
            self.record_module_call_end(
                call, find_residual_stream_output(output), iter_nested_tensors(output)
            )
        return output

    def record_module_call_start(
        self, call: ModuleCall, stream: torch.Tensor | None, states: list[torch.Tensor]
    ) -> None:
        """Record the call, and which calls its stream and other arguments come from."""
        self.result.calls.append(call)
        if stream is None:
            return
        call.extra_tensors = tuple(
            ExtraTensor(place, trace.sources, trace.gave)
            for place, tensor in enumerate(states)
            if tensor is not stream and tensor.is_floating_point()
            if (trace := self.watch.find_tensor_trace(tensor)) and call.container in trace.lists
        )
        trace = self.watch.find_tensor_trace(stream)
        call.follows = trace.returned_by if trace else None
        before = trace.lists if trace else frozenset[str]()
        call.takes = trace.sources if trace else frozenset()
        self.watch.mark_tensors_as_activations(
            stream, call.follows, before | {call.container or ""}, call.takes
        )

    def record_module_call_end(
        self, call: ModuleCall, stream: torch.Tensor | None, results: Iterable[torch.Tensor]
    ) -> None:
        """Mark its outputs, so that the call which takes them is known to follow."""
        for place, result in enumerate(results):
            known = None if result is stream else self.watch.find_tensor_trace(result)
            if known is not None:
                self.watch.attach_tensor_trace(result, known._replace(gave=(call.number, place)))
        if stream is not None:
            trace = self.watch.find_tensor_trace(stream)
            inner = trace.returned_by if trace else None
            call.result = call.number if inner is None or inner < call.number else inner
            lists = trace.lists if trace else frozenset[str]()
            call.made_of = trace.sources if trace else frozenset()
            self.watch.mark_tensors_as_activations(
                stream, call.result, lists, frozenset({call.number})
            )


def probe_forward(model: nn.Module, inputs: Inputs) -> ProbeResult:
    """Run the model once and record it; marks go on aliases, so the caller's inputs stay unmarked."""
    prober = ForwardProber(model)
    aliases = {
        name: value.detach() if isinstance(value, torch.Tensor) else value
        for name, value in inputs.items()
    }
    prober.watch.mark_tensors_as_activations(aliases)
    with torch.no_grad(), wrap_forwards(prober.names, prober.run_and_record_forward), prober.watch:
        model(**aliases)
    return prober.result


def iter_paths_of_unused_blocks(
    module: nn.Module, ran: set[nn.Module], path: str = ""
) -> Iterator[str]:
    """Paths of the outermost parts with blocks of which no module ran, and the blocks that a list of blocks left out.

    `ran`: the modules that did.
    """
    skipped = []
    for name, child in module.named_children():
        here = f"{path}.{name}".lstrip(".")
        if not ran.isdisjoint(child.modules()):
            yield from iter_paths_of_unused_blocks(child, ran, here)
        elif isinstance(module, LISTS) and has_nested_submodules(child):
            skipped.append(name)
        elif contains_block_list(child):
            yield here
    if skipped:  # cross-attention to pictures in a model that was given none
        yield f"{path} {', '.join(skipped)}"


def contains_block_list(module: nn.Module) -> bool:
    """Whether it holds a list of blocks: of modules whose parts have parts. An expert or a head has layers of torch alone."""
    return any(
        has_nested_submodules(element)
        for part in module.modules()
        if isinstance(part, LISTS)
        for element in part.children()
    )


def has_nested_submodules(module: nn.Module) -> bool:
    return any(
        not isinstance(part, LISTS) and any(True for _ in part.children())
        for part in module.children()
    )
