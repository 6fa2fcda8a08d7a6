"""A question's command: parse → one call → gates → write. Nothing else happens between a terminal and an answer."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from attncli.api.question import How, Say
from attncli.cli.spelling import as_typed
from attncli.cli.typer_options import for_typer
from attncli.options.declared import Option
from attncli.options.groups import flat_parameters, gathered, group_parameters
from attncli.options.shared import OutputOptions
from attncli.processes.saying import say

Run = Callable[[Callable[..., Any], dict[str, Any], Any], int]
"""Of what is asked, its options, and the options of the output."""


@dataclass(frozen=True)
class QuietOptions:
    """Of commands that write a file and no report."""

    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Nothing on stderr but errors.", panel="Output")
    ] = False


def command_of(question: Callable[..., Any]) -> Callable[..., int]:
    """What typer calls: the question's own options, and those of the output."""
    return with_group(question, OutputOptions, answered)


def writing_command_of(question: Callable[..., Any]) -> Callable[..., int]:
    """Of a question whose answer is a file."""
    return with_group(question, QuietOptions, written)


def with_group(question: Callable[..., Any], group: type, run: Run) -> Callable[..., int]:
    asked = question.asked  # type: ignore[attr-defined]
    own = list(flat_parameters(asked))
    shared = list(group_parameters(group))

    @functools.wraps(asked)
    def command(**values: Any) -> int:
        output = group(**{each.name: values.pop(each.name) for each in shared})
        return run(asked, gathered(asked, values), output)

    parameters = [for_typer(parameter) for parameter in (*own, *shared)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def answered(asked: Callable[..., Any], options: dict[str, Any], output: OutputOptions) -> int:
    """Refuse what can be refused, ask, decide the gates, write."""
    from attncli.api.progress import progress_bar
    from attncli.api.provenance import with_provenance
    from attncli.cli.writer import emit, prepare

    output, module = module_file(asked, output)
    conditions = prepare(output, module, options.get("save_maps"))
    drawn = output.plot is not None
    with progress_bar(output.shows_progress) as progress:
        how = How(
            progress, say_unless(output.quiet), tuple(conditions), drawn, output.output, module
        )
        report = asked(**options, how=how)
    return emit(with_provenance(report), output, conditions)


def module_file(
    asked: Callable[..., Any], output: OutputOptions
) -> tuple[OutputOptions, Path | None]:
    """-o FILE.safetensors of a fit is for the module, and the report goes to stdout then."""
    from attncli.writing.tensor_names import TENSORS

    path = output.output
    if asked.__name__ != "approximate" or path is None or path.suffix != TENSORS:
        return output, None
    return replace(output, output=None), path


def written(asked: Callable[..., Any], options: dict[str, Any], output: QuietOptions) -> int:
    asked(**options, how=How(say=say_unless(output.quiet)))
    return 0


def say_unless(quiet: bool) -> Say:
    """Sentences for people, on stderr, unless they ask for silence."""

    def tell(sentence: str) -> None:
        if not quiet:
            say(as_typed(sentence))

    return tell
