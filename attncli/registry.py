"""One mechanism for everything that is extended by adding a file: metrics, maps, formats.

A registry walks a package. One file is one thing; the file's name is the public name; the function in it that carries
the same name is the thing; the first line of its docstring is what `attn list` prints. Adding a file adds the thing,
and there is no second place to edit.

    METRICS = Registry("metric", "attncli.metrics")
    METRICS.names()            # file names only: imports nothing
    METRICS["stable_rank"]     # imports attncli/metrics/stable_rank.py and returns its function `stable_rank`

What other code must know of an entry, such as a metric's unit, is an `EntryDeclaration` above its function.
"""

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar, get_type_hints

from attncli.errors import UsageError, make_unknown_name_error

Function = TypeVar("Function", bound=Callable[..., object])
Entry_co = TypeVar("Entry_co", bound=Callable[..., object], covariant=True)
Declared = TypeVar("Declared", bound="EntryDeclaration")

DECLARED: dict[Callable[..., object], "EntryDeclaration"] = {}
"""What was declared of each function."""


class EntryDeclaration:
    """Properties of an entry; a subclass names them. As a decorator it returns the function itself, unchanged."""

    def __call__(self, function: Function) -> Function:
        DECLARED[function] = self
        return function


@cache  # reports look names up for every row
def list_entry_names(package: str) -> tuple[str, ...]:
    """Names of a package's public files, which are its entries; nothing is imported but the packages around it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    found = pkgutil.iter_modules(spec.submodule_search_locations)
    return tuple(sorted(m.name for m in found if not m.ispkg and not m.name.startswith("_")))


class Registry(Generic[Entry_co]):
    """The entries of a package, one per file: functions of one type."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self.entries: dict[str, Entry_co] = {}
        """Entries that were imported, by name."""

    def names(self) -> list[str]:
        """Public names, from file names alone, so that nothing heavy is imported to list or complete them."""
        return list(list_entry_names(self.package))

    def __getitem__(self, name: str) -> Entry_co:
        if name not in self.entries:
            module_name = name.replace("-", "_")
            if module_name not in list_entry_names(self.package):
                raise make_unknown_name_error(self.kind, name, self.names())
            module = importlib.import_module(f"{self.package}.{module_name}")
            self.entries[name] = getattr(module, module_name)
        return self.entries[name]

    def summary(self, name: str) -> str:
        """The first line of the entry's docstring."""
        return (inspect.getdoc(self[name]) or "").partition("\n")[0]


class SpecifiedRegistry(Registry[Entry_co], Generic[Entry_co, Declared]):
    """The entries of a package whose decorator declares their properties."""

    specification: type[Declared]

    def declaration_of_entry(self, name: str) -> Declared:
        """What the entry's decorator declares."""
        found = DECLARED[self[name]]
        assert isinstance(found, self.specification)
        return found


def call_entry_from_text(
    registry: Registry[Callable[..., Any]], text: str, **arguments: Any
) -> Any:
    """Call a registered function from `name`, `name:value:value` or `name:key=value,key=value`.

    The function's keyword-only parameters are what the text may set, in their order; `arguments` are the arguments that
    do not come from the text.
    """
    name, _, rest = text.partition(":")
    function = registry[name]
    return function(
        **arguments,
        **parse_entry_parameters(f"{registry.kind} '{text}'", function, rest, set(arguments)),
    )


def parse_entry_parameters(
    where: str, function: Callable[..., Any], text: str, taken: set[str]
) -> dict[str, Any]:
    """The parameters that `text` sets, converted by the function's own annotations."""
    hints = get_type_hints(function)
    allowed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in taken
    ]
    parts = [part for part in text.replace(",", ":").split(":") if part]
    values: dict[str, Any] = {}
    for position, part in enumerate(parts):
        key, equals, value = part.partition("=")
        if not equals:
            key, value = (allowed[position] if position < len(allowed) else ""), part
        if key not in allowed or key in values:
            takes = f"takes {', '.join(allowed)}" if allowed else "takes no parameters"
            raise UsageError(f"{where}: cannot use '{part}': '{function.__name__}' {takes}.")
        values[key] = convert_entry_parameter(where, key, value, hints[key])
    return values


MOST_DIGITS = 12
"""The most digits of a whole number: times any number of tokens it still fits a machine word."""

WORDS = {int: "a whole number", float: "a number", bool: "true or false"}


def convert_entry_parameter(where: str, key: str, value: str, kind: type) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[value.lower()]
        number = kind(value)
    except (ValueError, KeyError):
        word = WORDS.get(kind, kind.__name__)
        raise UsageError(f"{where}: {key} must be {word}, not '{value}'.") from None
    if kind is int and abs(number) >= 10**MOST_DIGITS:
        raise UsageError(f"{where}: {key} must have at most {MOST_DIGITS} digits, not '{value}'.")
    return number
