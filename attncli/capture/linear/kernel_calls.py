"""Functions and parts that a token mixer calls while it runs: remembered with what they were given, and called again."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import iter_tensors
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.reruns.float64 import force_float64
from attncli.capture.strips.attention_interface import to_float32

BASES = {"torch", "builtins"}
"""Packages whose classes have no scans of a model's own."""

Key = int | str
"""An argument: its place, or its name."""


@dataclass(frozen=True)
class KernelCall:
    """One call from inside a mixer."""

    name: str
    """Of the function, or the path of a part within the mixer."""
    number: int
    """How often the same has been called before in one run of the mixer."""
    function: Callable[..., Any] = field(repr=False)
    args: tuple[Any, ...] = field(repr=False)
    kwargs: Mapping[str, Any] = field(repr=False)
    is_method: bool = False
    """Whether it is a method of the mixer, or of one of its parts, beside their forward."""

    @property
    def place(self) -> tuple[str, int]:
        """What tells it from every other call of a run of the mixer."""
        return self.name, self.number

    def arguments(self) -> dict[Key, Tensor]:
        """Its floating tensors."""
        given: list[tuple[Key, Any]] = [*enumerate(self.args), *self.kwargs.items()]
        return {
            key: value
            for key, value in given
            if isinstance(value, Tensor) and value.is_floating_point()
        }

    def with_arguments(self, change: Callable[[Key, Any], Any]) -> "KernelCall":
        """The same with another of each argument."""
        return replace(
            self,
            args=tuple(change(place, value) for place, value in enumerate(self.args)),
            kwargs={name: change(name, value) for name, value in self.kwargs.items()},
        )

    def changed(self, change: Callable[[Tensor], Tensor]) -> "KernelCall":
        """The same with another of each floating tensor."""

        def other(_: Key, value: Any) -> Any:
            floating = isinstance(value, Tensor) and value.is_floating_point()
            return change(value) if floating else value

        return self.with_arguments(other)

    def constants(self) -> "KernelCall":
        """The same without gradients and without half precision."""
        return self.changed(lambda tensor: to_float32(tensor.detach()))

    def output(self, key: Key, instead: Tensor) -> Tensor:
        """The first floating tensor that it gives, with another tensor for one argument."""
        found = self.answer(key, instead)
        return next(value for value in iter_tensors(found) if value.is_floating_point())

    def answer(self, key: Key, instead: Tensor) -> Any:
        """All that it gives."""
        given = self.with_arguments(lambda place, value: instead if place == key else value)
        return self.function(*given.args, **given.kwargs)


class CallRecorder:
    """Hands on every call that mixers make of their functions and parts, after it has been answered."""

    def __init__(self, take: Callable[[nn.Module, KernelCall], None]) -> None:
        self.take = take
        self.current: list[nn.Module] = []
        """The mixers that run."""
        self.counts: Counter[tuple[int, str]] = Counter()
        self.silent = False
        """While calls are made once more."""

    def around_mixer(self, forward: Any, mixer: nn.Module, args: Any, kwargs: Any) -> Any:
        self.current.append(mixer)
        self.counts = Counter({k: n for k, n in self.counts.items() if k[0] != id(mixer)})
        try:
            return forward(*args, **kwargs)
        finally:
            self.current.pop()

    def called(
        self,
        name: str,
        function: Callable[..., Any],
        args: Any,
        kwargs: Any,
        is_method: bool = False,
    ) -> Any:
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
def record_kernel_calls(
    mixers: Iterable[nn.Module], take: Callable[[nn.Module, KernelCall], None]
) -> Iterator[None]:
    """Within, `take` is handed what these mixers call; their outputs are what they are."""
    mixers = list(dict.fromkeys(mixers))
    calls = CallRecorder(take)
    names = {part: path for mixer in mixers for path, part in iter_submodules(mixer)}

    def around_part(forward: Any, part: nn.Module, args: Any, kwargs: Any) -> Any:
        return calls.called(names[part], forward, args, kwargs)

    with ExitStack() as stack:
        stack.enter_context(wrap_forwards(mixers, calls.around_mixer))
        stack.enter_context(wrap_forwards(names, around_part))
        for place, name in find_called_functions(mixers):
            stack.enter_context(replace_function(place, name, calls))
        for part, name, path in find_called_methods(mixers):
            stack.enter_context(replace_method(part, name, path, calls))
        yield


def iter_submodules(mixer: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    return ((path, part) for path, part in mixer.named_modules() if part is not mixer)


@contextmanager
def replace_function(place: dict[str, Any], name: str, calls: CallRecorder) -> Iterator[None]:
    """Within, a function of a file of code is the same function, seen."""
    own = place[name]

    @wraps(own)
    def seen(*args: Any, **kwargs: Any) -> Any:
        return calls.called(name, own, args, kwargs)

    place[name] = seen
    try:
        yield
    finally:
        place[name] = own


@contextmanager
def replace_method(part: nn.Module, name: str, path: str, calls: CallRecorder) -> Iterator[None]:
    """Within, a method of one module is the same method, seen."""
    own = getattr(part, name)

    @wraps(own)
    def seen(*args: Any, **kwargs: Any) -> Any:
        return calls.called(path, own, args, kwargs, is_method=True)

    vars(part)[name] = seen
    try:
        yield
    finally:
        del vars(part)[name]


def find_called_methods(mixers: Iterable[nn.Module]) -> Iterator[tuple[nn.Module, str, str]]:
    """The methods that the code of mixers and their parts calls on itself, with their paths within the mixer."""
    seen: set[nn.Module] = set()
    for mixer in mixers:
        for path, part in mixer.named_modules():
            if part in seen:
                continue
            seen.add(part)
            for name in find_internal_methods(type(part)) - set(vars(part)):
                yield part, name, f"{path}.{name}".lstrip(".")


def find_internal_methods(kind: type) -> set[str]:
    """Of a class and of those that it is made of, but for torch's: those that the others' code names."""
    written = [each for each in kind.__mro__ if each.__module__.partition(".")[0] not in BASES]
    members = {
        name: inspect.unwrap(member)
        for each in reversed(written)  # what a class says itself comes last
        for name, member in vars(each).items()
        if inspect.isfunction(member)
    }
    named = set().union(*(names_in_code(member.__code__) for member in members.values()))
    return {name for name in named & set(members) if name != "forward" and name[:2] != "__"}


def find_called_functions(mixers: Iterable[nn.Module]) -> list[tuple[dict[str, Any], str]]:
    """The functions of their own files of code that the classes of mixers and of their parts name."""
    classes = {type(part) for mixer in mixers for part in mixer.modules()}
    found = {}
    for each in classes:
        for kind in each.__mro__:
            if kind.__module__.partition(".")[0] != "torch":
                for place, name in iter_named_functions(kind):
                    found[id(place), name] = (place, name)
    return list(found.values())


def iter_named_functions(kind: type) -> Iterator[tuple[dict[str, Any], str]]:
    for member in vars(kind).values():
        method = inspect.unwrap(member) if inspect.isfunction(member) else None
        if method is not None:
            for name in names_in_code(method.__code__):
                found = method.__globals__.get(name)
                if inspect.isfunction(found) and not found.__module__.startswith("torch"):
                    yield method.__globals__, name


def names_in_code(code: CodeType) -> set[str]:
    inner = (value for value in code.co_consts if isinstance(value, CodeType))
    return set(code.co_names).union(*map(names_in_code, inner))


@contextmanager
def call_in_float64(call: KernelCall) -> Iterator[KernelCall]:
    """The call in float64, where what it computes is float64 throughout."""
    with torch.no_grad(), force_float64():
        yield call.changed(lambda tensor: tensor.detach().double())
