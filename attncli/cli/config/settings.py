"""Options that are not on the command line: the environment's `ATTN_…`, then the configuration
file. Those that do not apply to a run are left out of it.

`[rank-collapse] seeds = 3` in attn.toml and `ATTN_RANK_COLLAPSE_SEEDS=3` both mean `attn
rank-collapse --seeds 3`. Several values are a list in the file, and lines in the environment.
`[model] dtype = "float32"` is for every command that runs a model and has a --dtype.

Which settings apply is declared with the options; an invalid value that only the run can detect is
refused with its line.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer import Context
from typer.core import TyperCommand, TyperGroup, TyperOption

from attncli.cli.command_tree import (
    PARSER_WORDS,
    CommandPath,
    command_words_of_context,
    find_command_by_words,
    list_command_words,
    root_command,
)
from attncli.declare.option_combination_rules import (
    SetOption,
    Settled,
    find_model_source_of_run,
    refuse_or_drop_inapplicable_options,
)
from attncli.declare.option_declarations import OptionValues, differs_from_option_default
from attncli.declare.replaced_options import refuse_option_that_became_command
from attncli.distributed_ranks import read_launch_environment
from attncli.errors import UsageError, make_unknown_name_error
from attncli.io.tensor_file_extensions import TENSORS
from attncli.records import Facts

if TYPE_CHECKING:
    from attncli.cli.config.config_file import ConfigFile

CONFIG = "ATTN_CONFIG"
"""Environment variable with the path of the file; runs started by `attn ci` and `attn sweep`
inherit it."""
PREFIX = "ATTN_"
CHECKS, MODEL = "checks", "model"
"""The tables of the checks of `attn ci`, and of all questions about models; every other one is a
command's."""


@dataclass(frozen=True, slots=True)
class OptionSetting:
    """One value for one option of one command."""

    command: CommandPath
    option: TyperOption
    value: Any
    where: str
    of_any_model: bool = False
    """Whether the table [model] has set it, and not one of its command."""

    @property
    def table_and_option_name(self) -> str:
        """`rank-collapse --seeds`, or `model --dtype`"""
        table = MODEL if self.of_any_model else " ".join(self.command)
        return f"{table} {self.option.opts[0]}"

    def __str__(self) -> str:
        return f"{self.table_and_option_name} = {self.value!r}  ({self.where})"


Settings = Mapping[tuple[CommandPath, str], OptionSetting]
"""By command and parameter."""


def load_config_file(named: str | None = None) -> "ConfigFile | None":
    """The file that was named; else this folder's attn.toml; else its pyproject.toml, if that has a table for attn."""
    path = named or os.environ.get(CONFIG)
    if path is None and Path("attn.toml").is_file():
        path = "attn.toml"
    project = Path("pyproject.toml")
    if path is None and project.is_file() and "[tool.attn" in project.read_text(errors="replace"):
        path = "pyproject.toml"
    if path is None:
        return None
    from attncli.cli.config.config_file import parse_config_file

    return parse_config_file(Path(path))


def collect_option_settings(root: Any) -> Settings:
    """Collect every setting in force; the environment overrides the file, and a command's table
    that of all models."""
    file, found = load_config_file(), list[OptionSetting]()
    if file is not None:
        if MODEL in file.values:
            found += read_model_settings(file, root)
        found += read_file_settings(file, file.values, root, ())
    found += read_environment_settings(os.environ, root)
    for one in found:
        from attncli.cli.config.command_line_only_options import refuse_command_line_only_setting

        refuse_command_line_only_setting(one.option.opts[0], one.value, one.where)
    return {(one.command, one.option.name): one for one in found}


def build_default_map(settings: Settings) -> dict[str, Any]:
    """Build typer's default map, by command and parameter. Each value is parsed here, so that
    errors name its source."""
    result: dict[str, Any] = {}
    for one in settings.values():
        require_valid_setting_value(one)
        place = result
        for name in one.command:
            place = place.setdefault(name, {})
        place[one.option.name] = one.value
    return result


def require_valid_setting_value(setting: OptionSetting) -> None:
    context = typer.Context(typer.core.TyperCommand(setting.command[-1]))
    try:
        setting.option.process_value(context, format_setting_as_argument(setting))
    except typer.TyperException as error:
        message = getattr(error, "message", str(error)).rstrip(".")
        why = PARSER_WORDS.get(message, f"{message[:1].lower()}{message[1:]}")
        sentence = f"{setting.table_and_option_name} cannot be {setting.value!r}: {why}."
        raise UsageError(f"{setting.where}: {sentence}") from None


def format_setting_as_argument(setting: OptionSetting) -> Any:
    """Format the value as on the command line: from text, the parser does not turn 2.7 into 2, or
    true into 1."""
    value = setting.value
    if setting.option.is_flag or isinstance(value, str | Mapping):
        return value
    return [str(each) for each in value] if isinstance(value, list) else str(value)


def read_model_settings(file: "ConfigFile", root: TyperGroup) -> Iterator[OptionSetting]:
    """Read the table [model]: each key is for every command that has it."""
    table = require_toml_table(file, file.values[MODEL], (MODEL,))
    takers = dict(iterate_model_options(root))
    known = {option_to_config_key(option) for options in takers.values() for option in options}
    for key, value in table.items():
        where = file.format_key_location(MODEL, key)
        if key not in known:
            raise add_location_to_error(
                where, make_unknown_name_error("option of models", key, known)
            )
        for path, options in takers.items():
            for option in options:
                if option_to_config_key(option) == key:
                    yield OptionSetting(
                        path, option, wrap_single_option_value(option, value), where, True
                    )


def iterate_model_options(root: TyperGroup) -> Iterator[tuple[CommandPath, list[Any]]]:
    """The commands that run a model, each with its options that [model] may set."""
    for path in list_command_words():
        command = find_command_by_words(root, path)
        declared = command.callback.options
        if "revision" in declared:  # `generate network` has --tokens too, and runs no model
            fed = [
                one
                for one in command.params
                if one.name in declared and declared[one.name].of_any_model
            ]
            yield path, fed


def require_toml_table(file: "ConfigFile", table: object, path: CommandPath) -> Facts:
    if not isinstance(table, Mapping):
        raise UsageError(
            f"{file.format_key_location(*path)}: '{'.'.join(path)}' must be a table of options."
        )
    return table


def read_file_settings(
    file: "ConfigFile", table: object, command: TyperCommand | TyperGroup, path: CommandPath
) -> Iterator[OptionSetting]:
    """Read the tables of a file, one per command; unknown tables are refused with their line."""
    members = getattr(command, "commands", None)
    for key, value in require_toml_table(file, table, path).items():
        if not path and key in (CHECKS, MODEL):
            continue
        if members is not None:
            if key not in members:
                raise add_location_to_error(
                    file.format_key_location(*path, key),
                    make_unknown_name_error("command", key, [*members, CHECKS, MODEL]),
                )
            yield from read_file_settings(file, value, members[key], (*path, key))
        else:
            where = file.format_key_location(*path, key)
            refuse_option_that_became_command(" ".join(path), key, where)
            option = find_option_by_config_key(command, key, where)
            yield OptionSetting(path, option, wrap_single_option_value(option, value), where)


def find_option_by_config_key(command: Any, key: str, where: str) -> Any:
    options = {
        option_to_config_key(option): option
        for option in command.params
        if option.param_type_name == "option" and option.name != "help"
    }
    if key not in options:
        raise add_location_to_error(where, make_unknown_name_error("option", key, options))
    return options[key]


def option_to_config_key(option: Any) -> str:
    """`token-ids`, as in the file."""
    name: str = option.opts[0].removeprefix("--")
    return name


def add_location_to_error(where: str, error: UsageError) -> UsageError:
    return UsageError(f"{where}: {error}")


def wrap_single_option_value(option: TyperOption, value: object) -> Any:
    """Wrap a single value in a list where the option takes several."""
    return [value] if option.multiple and not isinstance(value, list) else value


def read_environment_settings(
    environment: Mapping[str, str], root: TyperGroup
) -> Iterator[OptionSetting]:
    """Variables of commands; one that begins like a command and names no option of it is a misprint."""
    for variable in sorted(name for name in environment if name.startswith(PREFIX)):
        for path in list_command_words():
            stem = PREFIX + "_".join(path).replace("-", "_").upper() + "_"
            if variable.startswith(stem):
                command = find_command_by_words(root, path)
                key = variable.removeprefix(stem).lower().replace("_", "-")
                refuse_option_that_became_command(" ".join(path), key, variable)
                option = find_option_by_config_key(command, key, variable)
                text = environment[variable]
                value = text.splitlines() if option.multiple else text
                yield OptionSetting(path, option, value, variable)


def resolve_option_settings(context: Any) -> Settled:
    """The values of a command's options, typed or set; a command that passes options on gets all
    settings."""
    options_set = list(list_options_that_are_set(context))
    options = getattr(context.command.callback, "options", ())
    # what SOURCE names does not matter then
    if not any(one.name in options for one in options_set):
        return Settled({}, {})
    subject = find_model_source_of_run(context.command_path.removeprefix("attn "), context.params)
    return refuse_or_drop_inapplicable_options(context.command.callback.rules, options_set, subject)


def list_options_that_are_set(context: Any) -> Iterator[SetOption]:
    """Options that are typed or set elsewhere."""
    command, values = context.command.callback, context.params
    for name in getattr(command, "declared", ()):
        by = context.get_parameter_source(name)
        if (
            by is None
            or by.name == "DEFAULT"
            or not differs_from_option_default(command.declared[name], values[name])
        ):
            continue
        if by.name == "COMMANDLINE":
            yield SetOption(name, values[name])
        elif (one := find_setting_of_option(context, name)) is not None:
            yield SetOption(name, values[name], one.where, one.of_any_model)
    if values.get("tensor_parallel") and read_launch_environment().is_distributed:
        yield SetOption("torchrun", True)
    ending = Path(str(values.get("output"))).suffix
    if "save_module" in getattr(command, "own", ()) and ending == TENSORS:
        yield SetOption("save_module", values["output"])
    if ending and values.get("format") is None:
        from attncli.render import map_file_extensions_to_formats

        yield SetOption("format", map_file_extensions_to_formats().get(ending.lower(), "table"))


def find_setting_of_option(context: Context, name: str) -> OptionSetting | None:
    """The setting that an option's value comes from, if any."""
    source = context.get_parameter_source(name)
    if source is None or source.name != "DEFAULT_MAP":
        return None
    found: OptionSetting = context.find_root().obj[command_words_of_context(context), name]
    return found


def reset_option_to_default(context: Any, name: str) -> None:
    """Reset the option as if it were not set."""
    parameter = next(one for one in context.command.params if one.name == name)
    context.default_map = {
        other: value for other, value in context.default_map.items() if other != name
    }
    value, source = parameter.consume_value(context, {})
    context.params[name] = parameter.process_value(context, value)
    context.set_parameter_source(name, source)


def resolve_all_option_values(words: Sequence[str]) -> OptionValues:
    """Every option of a command line with its value: typed, set, or the default."""
    whole = root_command()
    name, *rest = words
    defaults = build_default_map(collect_option_settings(whole)).get(name, {})
    context = whole.commands[name].make_context(f"attn {name}", rest, default_map=defaults)
    return dict(context.params)
