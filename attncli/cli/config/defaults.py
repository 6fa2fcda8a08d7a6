"""Defaults from the environment and the configuration file for one run; those that do not apply are
left out.

Which apply is declared with the options; an invalid value that only the run can detect is refused
with its line.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attncli.cli.command_tree import (
    command_path,
    is_typed_on_command_line,
    make_command_context,
    root_command,
)
from attncli.cli.config.settings import OptionSetting, build_default_map, collect_settings
from attncli.declare.settle import SetOption, Settled, is_option_set, settle
from attncli.declare.source_kinds import find_run_source
from attncli.distributed_ranks import read_launch_environment
from attncli.errors import AttnError
from attncli.io.tensor_file_endings import TENSORS


def run_with_defaults(context: Any, run: Callable[[Any], Any]) -> Any:
    """Run the command without the defaults that do not fit; an error about another names the line that sets it."""
    for name in resolve_settings(context).left_out:
        unset_option(context, name)
    try:
        return run(context)
    except AttnError as error:
        own = [find_setting(context, name) for name in error.about]
        places = dict.fromkeys(one.where for one in own if one is not None)
        if places and not str(error).startswith(tuple(places)):
            error.args = (f"{', '.join(places)}: {error}",)
        raise


def resolve_settings(context: Any) -> Settled:
    """The values of a command's options, typed or set; a command that passes options on gets all
    settings."""
    given = list(list_set_options(context))
    options = getattr(context.command.callback, "options", ())
    if not any(one.name in options for one in given):  # what SOURCE names does not matter then
        return Settled({}, {})
    subject = find_run_source(" ".join(command_path(context)), context.params)
    return settle(context.command.callback.rules, given, subject)


def list_set_options(context: Any) -> Iterator[SetOption]:
    """Options that are typed or set elsewhere."""
    command, values = context.command.callback, context.params
    for name in getattr(command, "declared", ()):
        if is_option_set(command.declared[name], values.get(name)):
            one = find_setting(context, name)
            if one is not None:
                yield SetOption(name, values[name], one.where, one.of_any_model)
            elif is_typed_on_command_line(context, name):
                yield SetOption(name, values[name])
    if values.get("tensor_parallel") and read_launch_environment().is_distributed:
        yield SetOption("torchrun", True)
    if "save_module" in getattr(command, "own", ()) and str(values["output"]).endswith(TENSORS):
        yield SetOption("save_module", values["output"])


def find_setting(context: Any, name: str) -> OptionSetting | None:
    """The setting that an option's value comes from, if any."""
    source = context.get_parameter_source(name)
    if source is None or source.name != "DEFAULT_MAP":
        return None
    found: OptionSetting = context.find_root().obj[command_path(context), name]
    return found


def unset_option(context: Any, name: str) -> None:
    """Reset the option as if it were not set."""
    parameter = next(one for one in context.command.params if one.name == name)
    context.default_map = {
        other: value for other, value in context.default_map.items() if other != name
    }
    value, source = parameter.consume_value(context, {})
    context.params[name] = parameter.process_value(context, value)
    context.set_parameter_source(name, source)


def make_default_describer(words: Sequence[str]) -> tuple[Any, Callable[[Any], str]]:
    """The context of the line's command, and a function that describes whether the default of each
    of its options applies to this line."""
    from attncli.cli.option_spelling import replace_parameters_by_options

    whole = root_command()
    settings = collect_settings(whole)
    context = make_command_context(whole, words, build_default_map(settings), obj=settings)
    left_out = resolve_settings(context).left_out

    def describe_fate(option: Any) -> str:
        if is_typed_on_command_line(context, option.name):
            return "the command line says otherwise"
        why = left_out.get(option.name)
        return f"left out: {replace_parameters_by_options(why)}" if why else "applies"

    return context, describe_fate
