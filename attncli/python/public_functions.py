"""The public function of a question: flat keywords in, an `Answer` out; made when its name is first accessed.

rank_collapse("./checkpoint", seeds=3)
"""

import contextlib
import functools
import inspect
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from attncli.blas_threads_and_lock import TURNS, limit_blas_to_one_thread
from attncli.declare.option_combination_rules import (
    SetOption,
    find_model_source_of_run,
    refuse_or_drop_inapplicable_options,
)
from attncli.declare.option_declarations import (
    build_dataclasses_of_option_groups,
    collect_option_rules,
    differs_from_option_default,
    list_parameters_of_flattened_groups,
)
from attncli.declare.option_value_conversion import (
    convert_to_option_value,
    map_alternative_keyword_names,
    require_known_keywords,
)
from attncli.declare.replaced_options import refuse_keyword_that_became_function
from attncli.errors import UsageError, translate_system_error
from attncli.model_and_file_sources import Source
from attncli.progress import Progress, ignore_progress, make_status_callback, show_progress
from attncli.python.build_python_signatures import (
    OF_ALL,
    OF_PYTHON,
    SOURCE,
    build_signature,
    make_parameter_of_plural_name,
)
from attncli.python.keyword_help import add_keyword_help
from attncli.python.questions import RunContext
from attncli.python.report_answer import Answer, report_to_answer
from attncli.records import Report

LIBRARIES = {
    "torch",
    "transformers",
    "safetensors",
    "huggingface_hub",
    "numpy",
    "scipy",
    "tokenizers",
}
"""Libraries that read files for this package."""

NO_CONFIGURATION = {"ATTN_CONFIG": os.devnull}
"""Environment of runs started from Python: their own keywords only, no configuration file."""


@functools.cache
def make_public_function(function: Callable[..., Any], module: str) -> Callable[..., Any]:
    """The public function of a question, with flat keywords, as a name of this module."""
    parameters = list(list_parameters_of_flattened_groups(function))
    apart = {name: OF_PYTHON[name] for name in (*vars(function)["own"], *OF_ALL)}
    answered = Answer if function.__annotations__["return"] is Report else Path
    plural = map_alternative_keyword_names(parameter.name for parameter in parameters)
    seconds = [
        make_parameter_of_plural_name(name, usual, parameters) for name, usual in plural.items()
    ]
    signature = build_signature([*parameters, *seconds, *apart.values()], answered)

    @functools.wraps(function)
    def call_with_checked_keywords(*args: Any, **keywords: Any) -> Any:
        for name in keywords:
            refuse_keyword_that_became_function(function.__name__, name)
        require_known_keywords(function.__name__, keywords, signature.parameters)
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        values = dict(bound.arguments)
        python_only = {
            name: convert_to_option_value(each, values.pop(name)) for name, each in apart.items()
        }
        for name, usual in plural.items():
            move_plural_keyword_to_singular(values, name, usual)
        found = convert_options_and_run_question(function, parameters, values, python_only)
        if not isinstance(found, Report):
            return found
        from attncli.reports.provenance import add_provenance

        words = format_python_call(function.__name__, keywords, args)
        return report_to_answer(add_provenance(found, words))

    call_with_checked_keywords.__module__ = module  # where pickle looks for it
    call_with_checked_keywords.__doc__ = add_keyword_help(
        function.__doc__, [*parameters, *seconds, *apart.values()]
    )
    call_with_checked_keywords.__annotations__ = annotations_of_signature(signature)
    call_with_checked_keywords.__signature__ = signature  # type: ignore[attr-defined]
    call_with_checked_keywords.with_groups = function  # type: ignore[attr-defined]
    return call_with_checked_keywords


def convert_options_and_run_question(
    function: Callable[..., Any],
    parameters: Sequence[inspect.Parameter],
    values: Mapping[str, Any],
    python_only: Mapping[str, Any],
) -> Any:
    """Convert the options, refuse those that do not fit the source, and call the question as a program would run it."""
    options = {
        p.name: convert_to_option_value(p, values[p.name]) for p in parameters if p.name != SOURCE
    }
    with TURNS.open_measurement_scope(), ExitStack() as around:
        around.enter_context(limit_blas_to_one_thread())
        if SOURCE in values:
            any_module = vars(function)["any_module"]
            at_hand = resolve_source_or_module(values[SOURCE], python_only, any_module)
            options[SOURCE] = around.enter_context(at_hand)
        watch = around.enter_context(open_progress_display(python_only["progress"]))
        around.enter_context(translate_system_errors())
        declared = [*parameters, *(OF_PYTHON[name] for name in python_only)]
        refuse_keywords_that_do_not_apply(declared, {**options, **python_only}, function.__name__)
        how = RunContext(
            watch,
            make_status_callback(watch),
            pictures=python_only["pictures"],
            maps=python_only["pictures"],
            save_module=python_only.get("save_module"),
            settings=NO_CONFIGURATION,
        )
        return function(**build_dataclasses_of_option_groups(function, options), how=how)


def refuse_keywords_that_do_not_apply(
    declared: Iterable[inspect.Parameter], values: Mapping[str, Any], function: str
) -> None:
    """Refuse keywords that exclude each other, or that do not apply to the kind of SOURCE."""
    known = {each.name: each for each in declared}
    subject = find_model_source_of_run(function.replace("_", "-"), values)
    positional = [
        SetOption(name, value)
        for name, value in values.items()
        if differs_from_option_default(known[name], value)
    ]
    refuse_or_drop_inapplicable_options(collect_option_rules(known.values()), positional, subject)


@contextmanager
def translate_system_errors() -> Iterator[None]:
    """Let exponentials underflow, whatever the caller's numpy settings, and turn MemoryError into
    an error of ours."""
    import numpy as np

    try:
        with np.errstate(under="ignore"):
            yield
    except (MemoryError, OSError) as error:
        refused = None if is_raised_outside_package(error) else translate_system_error(error)
        if refused is None:
            raise
        raise refused from error


def is_raised_outside_package(error: BaseException) -> bool:
    """Whether code outside of this package has raised it, called by it, such as a function for `progress`."""
    names = [
        frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    inside = [name.partition(".")[0] for name in names]
    last = max(place for place, name in enumerate(inside) if name == "attncli")
    return any(
        name not in sys.stdlib_module_names and name not in LIBRARIES for name in inside[last + 1 :]
    )


def move_plural_keyword_to_singular(values: dict[str, Any], plural: str, usual: str) -> None:
    """The value under its usual name."""
    positional = values.pop(plural)
    if positional is None:
        return
    if values[usual] is not None and not (isinstance(values[usual], tuple) and not values[usual]):
        raise UsageError(f"`{usual}` and `{plural}` are the same: leave one out.")
    values[usual] = positional


def annotations_of_signature(signature: inspect.Signature) -> dict[str, Any]:
    found = {name: each.annotation for name, each in signature.parameters.items()}
    return {**found, "return": signature.return_annotation}


@contextmanager
def resolve_source_or_module(
    value: object, python_only: Mapping[str, Any], any_module: bool
) -> Iterator[Any]:
    """Put an in-memory module into eval mode while it is measured; resolve names and paths.

    `python_only`: Python-only keywords; `any_module`: as of the question.
    """
    tokenizer, inputs = python_only.get("tokenizer"), python_only.get("inputs")
    if value is None or isinstance(value, str | os.PathLike):
        yield None if value is None else os.fspath(value)
        return
    from attncli.models.inputs.tokenizing import refuse_invalid_tokenizer
    from attncli.models.loading.in_memory.in_memory_model import (
        restore_in_memory_model,
        wrap_in_memory_model,
    )
    from attncli.models.loading.isolate_global_state import isolate_run_in_process

    isolate_run_in_process()
    if tokenizer is not None:
        refuse_invalid_tokenizer(tokenizer)
    live = wrap_in_memory_model(value, tokenizer, inputs, any_module)
    with restore_in_memory_model(live.model):
        yield Source("live", str(live), live=live)


def open_progress_display(progress: Progress | bool | None) -> AbstractContextManager[Progress]:
    """`progress=True` shows how far the work is, a bar on a terminal as the command does; a callable is called."""
    if progress is True:
        return show_progress()
    return contextlib.nullcontext(progress or ignore_progress)


def format_python_call(name: str, keywords: Mapping[str, Any], args: Sequence[Any]) -> list[str]:
    """Format the call for the report; values that are not plain data by their type."""
    annotations = [format_call_argument(each) for each in args]
    annotations += [
        f"{key}={format_call_argument(value)}"
        for key, value in keywords.items()
        if key != "progress"
    ]
    return [f"attncli.{name}({', '.join(annotations)})"]


def format_call_argument(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(count_consecutive_equal_types(map(format_call_argument, value)))}]"
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    plain = value is None or isinstance(value, str | int | float)
    return repr(value) if plain else f"<{type(value).__name__}>"


def count_consecutive_equal_types(words: Iterable[str]) -> Iterator[str]:
    """Things of one type in a row are counted."""
    for word, alike in itertools.groupby(words):
        count = len(list(alike))
        apart = count == 1 or not word.startswith("<")
        yield from [word] * count if apart else [f"{count} × {word}"]
