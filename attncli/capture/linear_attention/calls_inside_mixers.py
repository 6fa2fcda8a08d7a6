"""Record the functions and submodules that a token mixer calls with their arguments, and call them again."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import iter_nested_tensors
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.capture.softmax_attention.attention_interface import promote_half_to_float32
from attncli.forward_argument_types import Args, Function, Kwargs, Output

BASES = {"torch", "builtins"}
"""Packages whose classes contain no scans of a model's own."""

Key = int | str
"""An argument: its position, or its name."""


@dataclass(frozen=True)
class KernelCall:
    """One call from inside a mixer."""

    name: str
    """The function's name, or a submodule's path within the mixer."""
    number: int
    """How many calls of the same preceded it in one run of the mixer."""
    function: Function = field(repr=False)
    args: Args = field(repr=False)
    kwargs: Kwargs = field(repr=False)
    is_method: bool = False
    """Whether it is a method of the mixer or of a submodule, other than forward."""

    @property
    def function_and_call_number(self) -> tuple[str, int]:
        """The key that identifies it among the calls of a run of the mixer."""
        return self.name, self.number

    def select_floating_arguments(self) -> dict[Key, Tensor]:
        """Its floating tensor arguments."""
        pairs: list[tuple[Key, Any]] = [*enumerate(self.args), *self.kwargs.items()]
        return {
            key: value
            for key, value in pairs
            if isinstance(value, Tensor) and value.is_floating_point()
        }

    def copy_call_with_changed_arguments(
        self, change: Callable[[Key, Output], Output]
    ) -> "KernelCall":
        """The same call with every argument transformed."""
        return replace(
            self,
            args=tuple(change(place, value) for place, value in enumerate(self.args)),
            kwargs={name: change(name, value) for name, value in self.kwargs.items()},
        )

    def copy_call_with_changed_floats(self, change: Callable[[Tensor], Tensor]) -> "KernelCall":
        """The same call with every floating tensor transformed."""

        def change_if_floating(_: Key, value: Output) -> Any:
            floating = isinstance(value, Tensor) and value.is_floating_point()
            return change(value) if floating else value

        return self.copy_call_with_changed_arguments(change_if_floating)

    def copy_detached_in_float32(self) -> "KernelCall":
        """The same call without gradients and half precision."""
        return self.copy_call_with_changed_floats(
            lambda tensor: promote_half_to_float32(tensor.detach())
        )

    def compute_output_with_new_argument(self, key: Key, instead: Tensor) -> Tensor:
        """The first floating tensor of its result, with another tensor for one argument."""
        found = self.run_call_with_new_argument(key, instead)
        return next(value for value in iter_nested_tensors(found) if value.is_floating_point())

    def run_call_with_new_argument(self, key: Key, instead: Tensor) -> Output:
        """Run the call; return its whole result."""
        arguments = self.copy_call_with_changed_arguments(
            lambda place, value: instead if place == key else value
        )
        return self.function(*arguments.args, **arguments.kwargs)


class CallRecorder:
    """Emits every call that mixers make of their functions and submodules, after it has returned."""

    def __init__(self, take: Callable[[nn.Module, KernelCall], None]) -> None:
        self.take = take
        self.current: list[nn.Module] = []
        """The mixers that run now."""
        self.counts: Counter[tuple[int, str]] = Counter()
        self.silent = False
        """Whether to ignore calls, while they are repeated."""

    def run_mixer_under_recording(
        self, forward: Function, mixer: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        self.current.append(mixer)
        self.counts = Counter({k: n for k, n in self.counts.items() if k[0] != id(mixer)})
        try:
            return forward(*args, **kwargs)
        finally:
            self.current.pop()

    def run_and_record_call(
        self, name: str, function: Function, args: Args, kwargs: Kwargs, is_method: bool = False
    ) -> Output:
        found = function(*args, **kwargs)
        if self.current and not self.silent:
            mixer = self.current[-1]
            number = self.counts[id(mixer), name]
            self.counts[id(mixer), name] += 1
            self.silent = True
            try:
                self.take(mixer, KernelCall(name, number, function, args, kwargs, is_method))
            finally:
                self.silent = False
        return found


@contextmanager
def record_calls_inside_mixers(
    mixers: Iterable[nn.Module], take: Callable[[nn.Module, KernelCall], None]
) -> Iterator[None]:
    """Within, `take` receives what these mixers call; results are unchanged."""
    mixers = list(dict.fromkeys(mixers))
    calls = CallRecorder(take)
    names = {part: path for mixer in mixers for path, part in iter_submodules(mixer)}

    def run_and_record_submodule(
        forward: Function, part: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        return calls.run_and_record_call(names[part], forward, args, kwargs)

    with ExitStack() as stack:
        stack.enter_context(wrap_forwards(mixers, calls.run_mixer_under_recording))
        stack.enter_context(wrap_forwards(names, run_and_record_submodule))
        for place, name in find_functions_called_by_mixers(mixers):
            stack.enter_context(
                wrap_function_with_recorder(place, name, partial(calls.run_and_record_call, name))
            )
        for part, name, path in find_methods_called_on_self(mixers):
            record = partial(calls.run_and_record_call, path, is_method=True)
            stack.enter_context(
                wrap_function_with_recorder(vars(part), name, record, getattr(part, name))
            )
        yield


def iter_submodules(mixer: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    return ((path, part) for path, part in mixer.named_modules() if part is not mixer)


@contextmanager
def wrap_function_with_recorder(
    table: dict[str, Any], name: str, record: Function, inherited: Function | None = None
) -> Iterator[None]:
    """Within, a function of a file or of a module's attributes is wrapped by one that records its calls.

    `inherited`: the method, where the module's class has it.
    """
    own: Function = inherited or table[name]

    @wraps(own)
    def call_and_record(*args: Any, **kwargs: Any) -> Output:
        return record(own, args, kwargs)

    table[name] = call_and_record
    try:
        yield
    finally:
        if inherited is None:
            table[name] = own
        else:
            del table[name]


def find_methods_called_on_self(
    mixers: Iterable[nn.Module],
) -> Iterator[tuple[nn.Module, str, str]]:
    """Find the methods that the code of mixers and their submodules calls on `self`, with their paths within the mixer."""
    seen: set[nn.Module] = set()
    for mixer in mixers:
        for path, part in mixer.named_modules():
            if part in seen:
                continue
            seen.add(part)
            for name in find_methods_called_in_class(type(part)) - set(vars(part)):
                yield part, name, f"{path}.{name}".lstrip(".")


def find_methods_called_in_class(kind: type) -> set[str]:
    """Methods of a class and its bases, except torch's, that other methods' code names."""
    written = [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in BASES]
    members = {
        name: inspect.unwrap(member)
        for each in reversed(written)  # a class's own methods come last, and override
        for name, member in vars(each).items()
        if inspect.isfunction(member)
    }
    named = set().union(*(list_names_in_bytecode(member.__code__) for member in members.values()))
    return {name for name in named & set(members) if name != "forward" and name[:2] != "__"}


def find_functions_called_by_mixers(
    mixers: Iterable[nn.Module],
) -> list[tuple[dict[str, Any], str]]:
    """Find the functions of their own source files that the classes of mixers and their submodules call."""
    classes = {type(part) for mixer in mixers for part in mixer.modules()}
    found = {}
    for each in classes:
        for kind in each.__mro__:
            if kind.__module__.partition(".")[0] != "torch":
                for place, name in iter_functions_named_in_methods(kind):
                    found[id(place), name] = (place, name)
    return list(found.values())


def iter_functions_named_in_methods(kind: type) -> Iterator[tuple[dict[str, Any], str]]:
    for member in vars(kind).values():
        method = inspect.unwrap(member) if inspect.isfunction(member) else None
        if method is not None:
            for name in list_names_in_bytecode(method.__code__):
                found = method.__globals__.get(name)
                if inspect.isfunction(found) and not found.__module__.startswith("torch"):
                    yield method.__globals__, name


def list_names_in_bytecode(code: CodeType) -> set[str]:
    inner = (value for value in code.co_consts if isinstance(value, CodeType))
    return set(code.co_names).union(*map(list_names_in_bytecode, inner))


@contextmanager
def cast_kernel_call_to_float64(call: KernelCall) -> Iterator[KernelCall]:
    """Run the call in float64, if its computation is float64 throughout."""
    with torch.no_grad(), force_float64():
        yield call.copy_call_with_changed_floats(lambda tensor: tensor.detach().double())
