"""A question's command: parse → one call → gates → write. Nothing else happens between a terminal and an answer."""

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from attncli.api.question import How
from attncli.cli.terminal import for_typer
from attncli.options.groups import flat_parameters, gathered
from attncli.options.shared import OutputOptions


def command_of(question: Callable[..., Any]) -> Callable[..., int]:
    """What typer calls: the question's own options, and those of the output."""
    asked = question.asked  # type: ignore[attr-defined]
    own = [each for each in flat_parameters(asked) if each.name != "how"]
    shared = list(flat_parameters(with_output))

    @functools.wraps(asked)
    def command(**values: Any) -> int:
        output = OutputOptions(**{each.name: values.pop(each.name) for each in shared})
        return answered(asked, gathered(asked, values), output)

    parameters = [for_typer(parameter) for parameter in (*own, *shared)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def with_output(*, output: OutputOptions) -> None:
    """Bears the options that every command shares."""


def answered(asked: Callable[..., Any], options: dict[str, Any], output: OutputOptions) -> int:
    """Refuse what can be refused, ask, decide the gates, write."""
    from attncli.api.progress import progress_bar
    from attncli.api.provenance import with_provenance
    from attncli.cli.writer import emit, prepare

    conditions = prepare(output)
    gated = tuple(condition.metric for condition in conditions)
    with progress_bar(output.shows_progress) as progress:
        how = How(progress, say_on_stderr(output), gated, pictures=output.plot is not None)
        report = asked(**options, how=how)
    return emit(with_provenance(report), output, conditions)


def say_on_stderr(output: OutputOptions) -> Callable[[str], None]:
    """Sentences for people, unless they ask for silence."""

    def say(sentence: str) -> None:
        if not output.quiet:
            print(f"attn: {sentence}", file=sys.stderr)

    return say
