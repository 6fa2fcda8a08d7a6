"""Declared options as Python has them: the types in a signature."""

import functools
import inspect
import operator
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, SupportsFloat, SupportsIndex, get_origin

from attncli.declare.option_declarations import Applies, Argument, Option
from attncli.declare.option_value_conversion import (
    accepts_saved_report,
    declare_python_only_keyword,
    find_metavar_of_parameter,
    find_text_converter,
    is_number_parameter,
    is_path_parameter,
    list_union_members,
    split_type_and_declarations,
)
from attncli.options.model_and_input import KINDS_OF_INPUT
from attncli.progress import Progress
from attncli.records import Report

SOURCE = "source"
"""Name of the first parameter of questions about a model, a network or maps."""


OF_PYTHON = {
    each.name: each
    for each in (
        declare_python_only_keyword(
            "tokenizer",
            Any,
            None,
            "Of a live module, for its texts.",
            Applies(
                to=("live",), why="{name} goes with a live module: a checkpoint brings its own."
            ),
        ),
        declare_python_only_keyword(
            "inputs",
            Any,
            None,
            "What the forward of a live module reads: its first argument, a mapping of arguments by name, or a list of either.",
            (
                Applies(
                    to=("live",),
                    why="{name} goes with a live module: a checkpoint reads `text`, `token_ids` or `random_tokens`.",
                ),
                Applies(excludes=(*KINDS_OF_INPUT, "tokens", "samples")),
            ),
        ),
        declare_python_only_keyword(
            "save_module",
            Path | None,
            None,
            "The safetensors file that the fitted module is written to.",
            Applies(
                needs=("head",), why="{name} goes with `head`: a survey makes no module to write."
            ),
        ),
        declare_python_only_keyword(
            "progress",
            bool | Progress | None,
            None,
            "True shows on stderr how far the work is; a function is called as progress(done, total, what).",
        ),
        declare_python_only_keyword(
            "pictures", bool, False, "The report takes along the maps that figures and pages draw."
        ),
    )
}
"""Keywords that only Python has; every question takes the last two."""
OF_ALL = ("progress", "pictures")


def build_signature(parameters: Iterable[inspect.Parameter], answer: Any) -> inspect.Signature:
    """The argument without a name first, then keywords; lists and tuples may come as one value."""
    shown = sorted(
        map(make_parameter_for_signature, parameters), key=lambda parameter: parameter.kind
    )
    return inspect.Signature(shown, return_annotation=answer)


def make_parameter_of_plural_name(
    name: str, usual: str, parameters: Iterable[inspect.Parameter]
) -> inspect.Parameter:
    """A second name of a keyword, for whom its value is several."""
    (found,) = (each for each in parameters if each.name == usual)
    kind, annotations = split_type_and_declarations(found)
    in_texts, form = find_text_converter(annotations), find_metavar_of_parameter(found)
    option = Option(help=f"The same as `{usual}`.", metavar=form, in_words=in_texts)
    return found.replace(name=name, default=None, annotation=Annotated[kind, option])


def make_parameter_for_signature(parameter: inspect.Parameter) -> inspect.Parameter:
    _, annotations = split_type_and_declarations(parameter)
    required = parameter.default is parameter.empty
    first = required or any(isinstance(each, Argument) for each in annotations)
    way = parameter.POSITIONAL_OR_KEYWORD if first else parameter.KEYWORD_ONLY
    default = () if parameter.default == [] else parameter.default
    return parameter.replace(
        annotation=build_accepted_type_hint(parameter), kind=way, default=default
    )


def build_accepted_type_hint(parameter: inspect.Parameter) -> Any:
    """Type annotation for type checkers: all that `converted` accepts, and None where there is a
    default."""
    kind, annotations = split_type_and_declarations(parameter)
    if kind is Any or parameter.name == SOURCE or find_text_converter(annotations):
        return Any
    found = [
        one for each in list_union_members(kind) for one in list_accepted_types(each, parameter)
    ]
    found += [Report] if accepts_saved_report(annotations) else []
    found += [] if parameter.default is parameter.empty else [None]
    return join_types_into_union(found)


def list_accepted_types(kind: Any, parameter: inspect.Parameter) -> list[Any]:
    """The types of values that are taken for one of this."""
    known: dict[Any, list[Any]] = {
        int: [SupportsIndex],
        float: [SupportsFloat],
        Path: [str, os.PathLike[str]],
    }
    if kind is str:
        return list_accepted_text_types(parameter)
    if get_origin(kind) is list:
        texts = list_accepted_text_types(parameter)
        return [*texts, Iterable[join_types_into_union(texts)]]  # type: ignore[misc]
    return known.get(kind, [kind])


def join_types_into_union(kinds: Iterable[Any]) -> Any:
    return functools.reduce(operator.or_, dict.fromkeys(kinds))


def list_accepted_text_types(parameter: inspect.Parameter) -> list[Any]:
    paths = [os.PathLike[str]] if is_path_parameter(parameter) else []
    return [str, *paths, *([SupportsIndex] if is_number_parameter(parameter) else [])]
