"""A question of attn's, asked with keywords in Python and with options at a terminal: one declaration, one default.

@question
def rank_collapse(*, source: Source = None, run: RunOptions, how: How) -> Report: …

rank_collapse("./checkpoint", seeds=3)      in Python: flat keywords, an `Answer`
rank_collapse.asked                         for the command line: the function with its groups
"""

import contextlib
import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from attncli.api.progress import doing_of, progress_bar
from attncli.errors import UsageError
from attncli.gates import Condition
from attncli.models.sources import Source
from attncli.options.declared import Argument, Option
from attncli.options.groups import flat_parameters, gathered
from attncli.records import Report
from attncli.studies import Progress, no_progress
from attncli.threads import one_blas_thread

Say = Callable[[str], None]

SOURCE = "source"
"""What a question is about, where it is about a model, a network or maps."""
NO_PLURALS: Mapping[str, str] = {}
OF_PYTHON = ("progress", "pictures")
"""Keywords that the command line says in other ways."""


MEASURING = "measuring"
"""What is being done once all is opened."""


NO_CONFIGURATION = {"ATTN_CONFIG": os.devnull}
"""Settings of runs that Python asks for: only their own words count."""


def silent(sentence: str) -> None:
    """Nobody listens."""


@dataclass(frozen=True)
class How:
    """What surrounds a question: who watches, and what else the answer is wanted for."""

    progress: Progress = no_progress
    doing: Say = silent
    """For what is being done now, which is forgotten when the next thing is."""
    say: Say = silent
    """For what a person wants to know before long work."""
    conditions: tuple[Condition, ...] = ()
    """Gates: what they ask for is measured, and what cannot be there is said before the work."""
    pictures: bool = False
    """Whether the report takes along what figures of maps are drawn of."""
    maps: bool = False
    """Whether it takes along what pages show of maps."""
    output: Path | None = None
    """Where the report will be written, so that nothing which is read is written over."""
    save_module: Path | None = None
    """Where a fitted module is written."""
    settings: Mapping[str, str] | None = None
    """What sets options of runs that are started for the answer; None: what sets those of this process."""


def question(
    own: Sequence[str] = (), plural: Mapping[str, str] = NO_PLURALS
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the front door of a function with option groups.

    `own`: further keywords that only Python has; `plural`: second names, of keywords that often have several values.
    """

    def front_door(asked: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(flat_parameters(asked))
        signature = in_python(parameters, [*own, *plural])

        @functools.wraps(asked)
        def ask(*args: Any, **keywords: Any) -> Any:
            bound = signature.bind(*args, **keywords)
            bound.apply_defaults()
            values = dict(bound.arguments)
            apart = {name: values.pop(name) for name in (*own, *OF_PYTHON)}
            for name, usual in plural.items():
                take_plural(values, name, usual)
            options = {p.name: converted(p, values[p.name]) for p in parameters if p.name != SOURCE}
            with ExitStack() as around:
                around.enter_context(one_blas_thread())
                if SOURCE in values:
                    at_hand = subject(values[SOURCE], apart)
                    options[SOURCE] = around.enter_context(at_hand)
                watch = around.enter_context(watched(apart["progress"]))
                module = apart.get("save_module")
                how = How(
                    watch,
                    doing_of(watch),
                    pictures=apart["pictures"],
                    maps=apart["pictures"],
                    save_module=None if module is None else Path(module),
                    settings=NO_CONFIGURATION,
                )
                found = asked(**gathered(asked, options), how=how)
            if not isinstance(found, Report):
                return found
            from attncli.api.answers import answer
            from attncli.reports.provenance import with_provenance

            words = call_in_words(asked.__name__, keywords, args)
            return answer(with_provenance(found, words))

        ask.__signature__ = signature  # type: ignore[attr-defined]
        ask.asked = asked  # type: ignore[attr-defined]
        return ask

    return front_door


def take_plural(values: dict[str, Any], plural: str, usual: str) -> None:
    """The value under its usual name."""
    given = values.pop(plural)
    if given is None:
        return
    if not isinstance(values[usual], tuple) or values[usual]:
        raise UsageError(f"`{usual}` and `{plural}` are the same: leave one out.")
    values[usual] = given


def in_python(parameters: Sequence[inspect.Parameter], own: Sequence[str]) -> inspect.Signature:
    """The argument without a name first, then keywords; lists and tuples may come as one value."""
    shown = []
    for parameter in parameters:
        kind, said = parts_of(parameter)
        required = parameter.default is parameter.empty
        first = required or any(isinstance(each, Argument) for each in said)
        way = parameter.POSITIONAL_OR_KEYWORD if first else parameter.KEYWORD_ONLY
        default = () if parameter.default == [] else parameter.default
        shown.append(parameter.replace(annotation=kind, kind=way, default=default))
    more = [(name, None) for name in own] + [("progress", None), ("pictures", False)]
    shown += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in more
    ]
    shown.sort(key=lambda parameter: parameter.kind)
    return inspect.Signature(shown, return_annotation="Answer")


def parts_of(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...]]:
    """The type, and what is declared beside it."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter.annotation, ()
    kind, *said = get_args(parameter.annotation)
    return kind, tuple(said)


def converted(parameter: inspect.Parameter, value: Any) -> Any:
    """A value of Python's as the option holds it, refused by the parameter's name where it is none."""
    kind, said = parts_of(parameter)
    reports = any(isinstance(one, Argument) and one.takes_reports for one in said)
    if reports and isinstance(value, Report):
        return value
    kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    empty = value is None or (isinstance(value, tuple) and not value)
    if empty and (parameter.default is None or parameter.default == []):
        return [] if parameter.default == [] else None
    given = value
    for one in said:
        named = isinstance(value, bytes | Mapping) and not hasattr(value, "shape")
        if isinstance(one, Option) and one.in_words and not named:
            given = one.in_words(value)
    for one in kinds:
        found = as_kind(one, given)
        if found is not None:
            return found
    names = " or ".join(WORDS.get(one, "a list of texts") for one in kinds if one is not type(None))
    names += " or a report" if reports else ""
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
        return (
            float(value) if isinstance(value, int | float) or hasattr(value, "__float__") else None
        )
    return value if kind is Any else None


def operator_index(value: Any) -> int | None:
    """Whole numbers of any library, and nothing that would be rounded; True and False are none."""
    if isinstance(value, bool):
        return None
    try:
        return value.__index__()  # type: ignore[no-any-return]
    except (AttributeError, TypeError):
        return None


def as_text(value: Any) -> str | None:
    """Texts, paths, and numbers, as one would type them."""
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    number = operator_index(value)
    return None if number is None else str(number)


def as_texts(value: Any) -> list[str] | None:
    """One value or several, where each of them is one that could be typed."""
    single = as_text(value)
    if single is not None:
        return [single]
    several = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(several, Iterable) or isinstance(several, bytes | Mapping):
        return None
    texts = [as_text(each) for each in several]
    return None if None in texts else [text for text in texts if text is not None]


@contextmanager
def subject(value: Any, beside: Mapping[str, Any]) -> Iterator[Any]:
    """A live module is at rest while it is asked about; whatever has a name or path is found by it.

    `beside`: keywords of Python's own.
    """
    tokenizer, inputs = beside.get("tokenizer"), beside.get("inputs")
    if value is None or isinstance(value, str | os.PathLike):
        if tokenizer is not None:
            raise UsageError("`tokenizer` goes with a live module: a checkpoint brings its own.")
        if inputs is not None:
            raise UsageError("`inputs` goes with a live module: a checkpoint reads `text`, `token_ids` or `random_tokens`.")  # fmt: skip
        yield None if value is None else os.fspath(value)
        return
    from attncli.models.loading.live import left_as_it_was, live_model

    live = live_model(value, tokenizer, inputs, own="inputs" in beside)
    with left_as_it_was(live.model):
        yield Source("live", str(live), live=live)


def watched(progress: Any) -> Any:
    """`progress=True` shows a bar on a terminal, as the command does; a callable is called."""
    if progress is True:
        return progress_bar(True)
    return contextlib.nullcontext(no_progress if progress in (None, False) else progress)


def call_in_words(name: str, keywords: Mapping[str, Any], args: Sequence[Any]) -> list[str]:
    """The call, for the report: what is no plain value by its type."""
    said = [in_words(each) for each in args]
    said += [f"{key}={in_words(value)}" for key, value in keywords.items() if key != "progress"]
    return [f"attncli.{name}({', '.join(said)})"]


def in_words(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(in_words, value))}]"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    plain = value is None or isinstance(value, str | int | float)
    return repr(value) if plain else f"<{type(value).__name__}>"
