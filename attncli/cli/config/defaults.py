"""Defaults from the environment and the configuration file for one run; those that do not apply are
left out.

Which apply is declared with the options; an invalid value that only the run can detect is refused
with its line.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attncli.cli.config.settings import build_default_map, collect_settings
from attncli.cli.root import command_path, is_typed, reached, root_command
from attncli.cli.spelling import spell_as_options
from attncli.declare.settle import Given, Settled, is_set, rules_of, settle
from attncli.declare.subject import subject_of
from attncli.errors import AttnError
from attncli.io.tensor_file_names import TENSORS


def run_with_defaults(context: Any, run: Callable[[Any], Any]) -> Any:
    """Run the command without the defaults that do not fit; an error about another names the line that sets it."""
    for name in settled(context).left_out:
        leave_out(context, parameter_of(context, name))
    try:
        return run(context)
    except AttnError as error:
        places = [where(context, name) for name in error.about if is_default(context, name)]
        if places and not str(error).startswith(tuple(places)):
            error.args = (f"{', '.join(dict.fromkeys(places))}: {error}",)
        raise


def settled(context: Any) -> Settled:
    """The values of a command's options, typed or set; a command that passes options on gets all
    settings."""
    declared = getattr(context.command.callback, "declared", {})
    subject = subject_of(" ".join(command_path(context)), context.params)
    return settle(rules_of(declared.values()), list(given(context, declared)), subject)


def given(context: Any, declared: dict[str, Any]) -> Iterator[Given]:
    """Options that are typed or set elsewhere; a module's file is the -o of `approximate`."""
    for name, each in declared.items():
        value = context.params.get(name)
        if is_default(context, name) and is_set(each, value):
            yield Given(name, value, where(context, name))
        elif is_typed(context, name) and is_set(each, value):
            yield Given(name, value)
    output = context.params.get("output")
    if "pattern" in declared and str(output).endswith(TENSORS):
        yield Given("save_module", output)


def parameter_of(context: Any, name: str) -> Any:
    return next(one for one in context.command.params if one.name == name)


def is_default(context: Any, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "DEFAULT_MAP"


def leave_out(context: Any, parameter: Any) -> None:
    """Reset the options as if they were not set."""
    defaults = {
        name: value for name, value in context.default_map.items() if name != parameter.name
    }
    context.default_map = defaults
    value, source = parameter.consume_value(context, {})
    context.params[parameter.name] = parameter.process_value(context, value)
    context.set_parameter_source(parameter.name, source)


def where(context: Any, name: str) -> str:
    """The line of the file, or the variable, that has set it."""
    own = collect_settings(context.find_root().command)
    return next(
        one.where for one in own if one.command == command_path(context) and one.option.name == name
    )


def fates(words: Sequence[str]) -> Callable[[Any], str]:
    """Return a function that describes whether the default of each of the command's options applies
    to this line."""
    whole = root_command()
    context = reached(whole, words, build_default_map(whole))
    left_out = settled(context).left_out

    def fate(option: Any) -> str:
        if is_typed(context, option.name):
            return "the command line says otherwise"
        why = left_out.get(option.name)
        return f"left out: {spell_as_options(why)}" if why else "applies"

    return fate
