"""Convert values of any library to option values; invalid ones are refused with the option's name."""

import functools
import inspect
import os
import re
import types
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin

from attncli.declare.name_suggestions import suggest_option_name
from attncli.declare.option_declarations import (
    Applies,
    Argument,
    Option,
    convert_option_field_to_parameter,
    declare_option,
)
from attncli.errors import UsageError, make_unknown_name_error
from attncli.records import Report

INPUT = "Input"
"""The help heading of options for the model's input."""
NAMES_A_FILE = re.compile(r"(?<![\w@])(FILE|FOLDER|DIR|MODEL|PATTERN|SOURCE|A|B)(?!\w)")
NAMES_A_NUMBER = re.compile(r"(?<![\w:=])(N|ID|R|D|TOKEN|TARGET|FROM)(?!\w)")
"""In the word that help shows for a value, such as `ID,ID,…|@FILE`."""


SECOND_NAMES = {"metric": "metrics", "pattern": "patterns"}
"""Keywords that often have several values go by the plural too, whichever of the two is declared."""

P = ParamSpec("P")
R = TypeVar("R")


def map_alternative_keyword_names(names: Iterable[str]) -> dict[str, str]:
    """Of the keywords that have two names the other one, with the one that is declared."""
    both = {**SECOND_NAMES, **{many: one for one, many in SECOND_NAMES.items()}}
    return {both[name]: name for name in names if name in both}


def require_known_keywords(function: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise TypeError for unknown keywords, as Python does, with the most similar known one."""
    for name in names:
        if name not in known:
            nearest = suggest_option_name(name, list(known))
            kind = f"keyword of {function}()"
            raise TypeError(str(make_unknown_name_error(kind, name, known, nearest)))


def suggest_unknown_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap the function to suggest the most similar keyword for an unknown one."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call_or_suggest_keyword(*args: P.args, **keywords: P.kwargs) -> R:
        require_known_keywords(function.__qualname__.removesuffix(".__init__"), keywords, known)
        return function(*args, **keywords)

    return call_or_suggest_keyword


def is_path_parameter(parameter: inspect.Parameter) -> bool:
    return bool(NAMES_A_FILE.search(find_metavar_of_parameter(parameter)))


def is_number_parameter(parameter: inspect.Parameter) -> bool:
    """Whether a text may be a plain number, so that one may give it as such."""
    return bool(NAMES_A_NUMBER.search(find_metavar_of_parameter(parameter)))


def declare_python_only_keyword(
    name: str, kind: Any, default: Any, help: str, applies: Applies | tuple[Applies, ...] = ()
) -> inspect.Parameter:
    """Declare a keyword that the command line spells differently or lacks."""
    return convert_option_field_to_parameter(
        name, declare_option(default=default, help=help, applies=applies), kind
    )


def find_metavar_of_parameter(parameter: inspect.Parameter) -> str:
    _, annotations = split_type_and_declarations(parameter)
    return next(
        (one.metavar or "" for one in annotations if isinstance(one, Option | Argument)), ""
    )


def accepts_saved_report(annotations: Iterable[Any]) -> bool:
    return any(isinstance(one, Argument) and one.takes_reports for one in annotations)


def is_model_input_option(annotations: Iterable[Any]) -> bool:
    """Whether the option is an input of the model: an empty list of texts is not the default text."""
    return any(isinstance(one, Option) and one.panel == INPUT for one in annotations)


def find_text_converter(annotations: Iterable[Any]) -> Callable[[Any], Any] | None:
    """The converter of Python-only values to text, if one is declared."""
    return next((one.in_words for one in annotations if isinstance(one, Option)), None)


def split_type_and_declarations(parameter: inspect.Parameter) -> tuple[Any, tuple[Any, ...]]:
    """The type, and the declarations in its `Annotated`."""
    if get_origin(parameter.annotation) is not Annotated:
        return parameter.annotation, ()
    kind, *annotations = get_args(parameter.annotation)
    return kind, tuple(annotations)


def list_union_members(kind: Any) -> tuple[Any, ...]:
    every = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return tuple(one for one in every if one is not type(None))


def convert_to_option_value(parameter: inspect.Parameter, value: object) -> Any:
    """Convert a Python value to the option's type, or refuse it with the parameter's name; None is
    the default."""
    kind, annotations = split_type_and_declarations(parameter)
    if kind is Any or (accepts_saved_report(annotations) and isinstance(value, Report)):
        return value
    has_default = parameter.default is not parameter.empty
    empty = isinstance(value, tuple) and not value
    if has_default and (value is None or (empty and parameter.default is None)):
        return [] if parameter.default == [] else parameter.default
    raw, in_texts = value, find_text_converter(annotations)
    if in_texts and (hasattr(type(value), "shape") or not isinstance(value, bytes | Mapping)):
        raw = in_texts(value)
    for one in list_union_members(kind):
        found = convert_to_option_type(one, raw, parameter)
        if found is not None:
            if found == [] and (
                not has_default or (is_model_input_option(annotations) and not empty)
            ):
                out = ", or leave it out" if has_default else ""
                raise UsageError(f"`{parameter.name}` is empty: give at least one{out}.")
            return found
    names = " or ".join(
        WORDS.get(one) or describe_option_type(one) for one in list_union_members(kind)
    )
    names += " or a report" if accepts_saved_report(annotations) else ""
    raise UsageError(f"`{parameter.name}` must be {names}, not {format_value_in_one_line(value)}.")


def format_value_in_one_line(value: object) -> str:
    """As Python shows it, the beginning."""
    return " ".join(repr(value).split())[:80]


WORDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a path",
}


def describe_option_type(kind: Any) -> str:
    return "a list of texts" if get_origin(kind) is list else "a function"


def convert_to_option_type(kind: Any, value: object, parameter: inspect.Parameter) -> Any:
    """Convert the value to this type, or return None."""
    if get_origin(kind) is list:
        return to_option_texts_or_none(value, parameter)
    value = to_python_number(value)
    if kind is bool or isinstance(value, bool):
        return value if kind is bool and isinstance(value, bool) else None
    if kind is Path:
        return Path(value) if isinstance(value, str | os.PathLike) else None
    if kind is str:
        return to_option_text_or_none(value, parameter)
    if kind is int:
        return to_whole_number_or_none(value)
    if kind is float:
        return to_float_or_none(value)
    return value if callable(value) else None


def to_python_number(value: object) -> Any:
    """Convert a numpy or torch scalar to a Python number; gradients are ignored."""
    if isinstance(value, str | int | float) or not hasattr(value, "item"):
        return value
    try:
        return value.item() if getattr(value, "shape", None) == () else value
    except (RuntimeError, TypeError, ValueError):  # such as a tensor without data
        return value


def to_whole_number_or_none(value: Any) -> int | None:
    """Whole numbers of any library without rounding; None for True and False."""
    if isinstance(value, bool):
        return None
    try:
        index: int = value.__index__()
    except (AttributeError, TypeError, RuntimeError):
        return None
    return index


def to_float_or_none(value: object) -> float | None:
    """Numbers of any library, but no array of one."""
    if getattr(value, "shape", ()) != () or not hasattr(value, "__float__"):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def to_option_text_or_none(value: object, parameter: inspect.Parameter) -> str | None:
    """Texts, and as one would type them paths and numbers, where the option has such."""
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        path = os.fspath(value) if is_path_parameter(parameter) else None
        return path if isinstance(path, str) else None
    number = to_whole_number_or_none(value) if is_number_parameter(parameter) else None
    return None if number is None else str(number)


def to_option_texts_or_none(value: object, parameter: inspect.Parameter) -> list[str] | None:
    """Convert one text or several."""
    one = to_option_text_or_none(to_python_number(value), parameter)
    if one is not None:
        return [one]
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        return None
    try:
        found = [to_option_text_or_none(to_python_number(each), parameter) for each in value]
    except TypeError:  # what says that it can be gone through, such as an array without axes
        return None
    return None if None in found else [each for each in found if each is not None]
