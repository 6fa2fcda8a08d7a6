"""A question of attn's, asked with keywords in Python and with options at a terminal: one declaration, one default.

    @question
    def rank_collapse(*, source: Source = None, run: RunOptions, how: How) -> Report: …

    rank_collapse("./checkpoint", seeds=3)      in Python: flat keywords, an `Answer`
    rank_collapse.asked                         for the command line: the function with its groups
"""

import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from attncli.api.answers import Answer, answer
from attncli.api.progress import progress_bar
from attncli.api.provenance import with_provenance
from attncli.errors import UsageError
from attncli.options.declared import Argument
from attncli.options.groups import flat_parameters, gathered
from attncli.records import Report
from attncli.studies import Progress, no_progress

Say = Callable[[str], None]


def silent(sentence: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class How:
    """What surrounds a question: who watches, and what else the answer is wanted for."""

    progress: Progress = no_progress
    say: Say = silent
    """For what a person wants to know before long work."""
    gated: tuple[str, ...] = ()
    """Metrics that gates ask for, measured though nobody named them."""
    pictures: bool = False
    """Whether the report takes along what figures of maps are drawn of."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """What has no form on the command line: a live module's tokenizer, a file for the fitted module."""


def question(own: Sequence[str] = ()) -> Callable[[Callable[..., Report]], Callable[..., Answer]]:
    """Make the front door of a function with option groups; `own`: further keywords that only Python has."""

    def front_door(asked: Callable[..., Report]) -> Callable[..., Answer]:
        parameters = [p for p in flat_parameters(asked) if p.name != "how"]
        signature = in_python(parameters, own)

        @functools.wraps(asked)
        def ask(*args: Any, **keywords: Any) -> Answer:
            bound = signature.bind(*args, **keywords)
            bound.apply_defaults()
            values = dict(bound.arguments)
            extras = {name: values.pop(name) for name in own}
            progress, pictures = values.pop("progress"), values.pop("pictures")
            options = {p.name: converted(p, values[p.name]) for p in parameters}
            with watched(progress) as watch:
                how = How(watch, pictures=pictures, given=extras)
                report = asked(**gathered(asked, options), how=how)
            words = call_in_words(asked.__name__, parameters, keywords, args)
            return answer(with_provenance(report, words))

        ask.__signature__ = signature  # type: ignore[attr-defined]
        ask.asked = asked  # type: ignore[attr-defined]
        return ask

    return front_door


def in_python(parameters: Sequence[inspect.Parameter], own: Sequence[str]) -> inspect.Signature:
    """The argument without a name first, then keywords; lists and tuples may come as one value."""
    shown = []
    for parameter in parameters:
        kind, said = parts_of(parameter)
        first = any(isinstance(each, Argument) for each in said)
        way = parameter.POSITIONAL_OR_KEYWORD if first else parameter.KEYWORD_ONLY
        default = () if parameter.default == [] else parameter.default
        shown.append(parameter.replace(annotation=kind, kind=way, default=default))
    more = [(name, None) for name in own] + [("progress", None), ("pictures", False)]
    shown += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in more
    ]
    shown.sort(key=lambda parameter: parameter.kind)
    return inspect.Signature(shown, return_annotation=Answer)


def parts_of(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...]]:
    """The type, and what is declared beside it."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter.annotation, ()
    kind, *said = get_args(parameter.annotation)
    return kind, tuple(said)


def converted(parameter: inspect.Parameter, value: Any) -> Any:
    """A value of Python's as the option holds it, refused by the parameter's name where it is none."""
    kind, _ = parts_of(parameter)
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    empty = value is None or (value == () and isinstance(value, tuple))
    if empty and (parameter.default is None or parameter.default == []):
        return [] if parameter.default == [] else None
    for one in kinds:
        found = as_kind(one, value)
        if found is not None:
            return found
    names = " or ".join(WORDS.get(one, "a list of texts") for one in kinds if one is not type(None))
    raise UsageError(f"`{parameter.name}` must be {names}, not {value!r:.80}.")


WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "a text", Path: "a path"}  # fmt: skip


def as_kind(kind: Any, value: Any) -> Any:
    """The value as this type, or None where it is of another."""
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else None
    if get_origin(kind) is list:
        return as_texts(value)
    if kind is Path:
        return Path(value) if isinstance(value, str | os.PathLike) else None
    if kind is str:
        return as_text(value)
    if kind is int:
        return operator_index(value)
    if kind is float:
        return float(value) if isinstance(value, int | float) or hasattr(value, "__float__") else None
    return value if kind is Any else None


def operator_index(value: Any) -> int | None:
    """Whole numbers of any library, and nothing that would be rounded."""
    try:
        return value.__index__()  # type: ignore[no-any-return]
    except (AttributeError, TypeError):
        return None


def as_text(value: Any) -> str | None:
    """Texts, paths, and numbers, as one would type them."""
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)  # type: ignore[return-value]
    number = operator_index(value)
    return None if number is None else str(number)


def as_texts(value: Any) -> list[Any] | None:
    """One value or several; what is no text, such as a matrix among patterns, stays as it is."""
    single = as_text(value)
    if single is not None:
        return [single]
    if not isinstance(value, Iterable) or hasattr(value, "shape"):
        return [value] if hasattr(value, "shape") else None
    return [each if (text := as_text(each)) is None else text for each in value]


def watched(progress: Any) -> Any:
    """`progress=True` shows a bar on a terminal, as the command does; a callable is called."""
    import contextlib

    if progress is True:
        return progress_bar(True)
    return contextlib.nullcontext(no_progress if progress in (None, False) else progress)


def call_in_words(
    name: str,
    parameters: Sequence[inspect.Parameter],
    keywords: Mapping[str, Any],
    args: Sequence[Any],
) -> list[str]:
    """The call, for the report: what is no plain value by its type."""
    said = [in_words(each) for each in args]
    said += [f"{key}={in_words(value)}" for key, value in keywords.items() if key != "progress"]
    return [f"attncli.{name}({', '.join(said)})"]


def in_words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_words, value))}]"
    plain = value is None or isinstance(value, str | int | float | os.PathLike)
    return repr(value) if plain else f"<{type(value).__name__}>"
