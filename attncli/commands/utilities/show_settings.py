"""`attn config`"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from attncli.cli.command_tree import (
    command_words_of_context,
    is_typed_on_command_line,
    make_command_context,
)
from attncli.cli.typer_options import flatten_option_groups
from attncli.declare.option_declarations import declare_argument

if TYPE_CHECKING:
    from attncli.cli.config.settings import OptionSetting, Settings

EXAMPLES = """
attn config show
attn config show rank-collapse ./checkpoint              # which settings apply to this run
attn config show --config other.toml
ATTN_RANK_COLLAPSE_SEEDS=3 attn config show
"""

PASSES_OPTIONS_ON = True
"""Options that `show` does not declare are left to the command line that follows it."""


@flatten_option_groups
def show_option_settings(
    context: typer.Context,
    words: list[str] | None = declare_argument(
        default=None,
        metavar="[COMMAND LINE]…",
        help="A command line, as you would type it: show which settings apply to it. Nothing is computed.",
    ),
) -> int:
    """Which options are set by the environment or a file, and where.

    The command line overrides ATTN_COMMAND_OPTION of the environment, which overrides the file: --config FILE, else
    attn.toml, else [tool.attn] in pyproject.toml, both of the current folder. Tables are commands, keys their options;
    [model] sets an option for every command that runs a model and has it, unless the command's own table does;
    [checks.NAME] are what `attn ci` runs. Options that run code, write or delete count on the command line alone.
    Settings that do not apply to a run are ignored: give its command line to see which.
    """
    from attncli.cli.config.settings import load_config_file
    from attncli.commands.utilities.continuous_integration.named_checks import (
        parse_configured_checks,
    )
    from attncli.io.standard_streams import write_stdout

    settings: Settings = context.find_root().obj
    if words:
        lines = list(describe_settings_for_command(context.find_root().command, words, settings))
    else:
        checks = parse_configured_checks(load_config_file())
        lines = list(dict.fromkeys(map(str, settings.values())))
        lines += [
            f"check {check.name}: {check.command_or_report_path}  ({check.where})"
            for check in checks
        ]
    write_stdout("".join(f"{line}\n" for line in lines or ["nothing is set"]))
    return 0


def describe_settings_for_command(
    root: Any, words: list[str], settings: "Settings"
) -> Iterable[str]:
    """Describe the settings for the command of `words`, each with whether it applies to this run."""
    from attncli.cli.config.settings import build_default_map, resolve_option_settings
    from attncli.cli.parameter_names_as_options import replace_parameters_by_options

    context = make_command_context(root, words, build_default_map(settings), obj=settings)
    path, left_out = command_words_of_context(context), resolve_option_settings(context).left_out

    def describe_effect_of_setting(one: "OptionSetting") -> str:
        if is_typed_on_command_line(context, one.option.name):
            return "the command line says otherwise"
        why = left_out.get(one.option.name)
        return f"left out: {replace_parameters_by_options(why)}" if why else "applies"

    own = {
        one.option.name: f"{one}: {describe_effect_of_setting(one)}"
        for one in settings.values()
        if one.command == path
    }
    if "revision" in getattr(context.command.callback, "options", ()):
        for one in settings.values():
            if one.of_any_model:
                has_none = f"left out: {' '.join(path)} has no {one.option.opts[0]}"
                own.setdefault(one.option.name, f"{one}: {has_none}")
    return own.values()
