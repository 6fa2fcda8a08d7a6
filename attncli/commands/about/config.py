"""`attn config`"""

from typing import TYPE_CHECKING, Annotated

import typer

from attncli.cli.typer_options import grouped
from attncli.declare.options import Argument

if TYPE_CHECKING:
    from attncli.cli.config.settings import OptionSetting

EXAMPLES = """
attn config show
attn config show rank-collapse ./checkpoint              what of it applies to this run
attn config show --config other.toml
ATTN_RANK_COLLAPSE_SEEDS=3 attn config show
"""

PASSES_OPTIONS_ON = True
"""Options that `show` does not declare are left to the command line that follows it."""


@grouped
def show(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        Argument(
            metavar="[COMMAND LINE]…",
            help="A command line, as you would type it: show which settings apply to it. Nothing is computed.",
        ),
    ] = None,
) -> int:
    """Which options are set by the environment or a file, and where.

    The command line overrides ATTN_COMMAND_OPTION of the environment, which overrides the file: --config FILE, else
    attn.toml, else [tool.attn] in pyproject.toml, both of the current folder. Tables are commands, keys their options;
    [checks.NAME] are what `attn ci` runs. Options that run code, write or delete count on the command line alone.
    Settings that do not apply to a run are ignored: give its command line to see which.
    """
    from attncli.cli.config.settings import collect_settings, current_file
    from attncli.commands.about.ci.named_checks import parse_checks
    from attncli.io.standard_output import write_stdout

    found = collect_settings(context.find_root().command)
    if words:
        lines = describe_run_settings(words, found)
    else:
        lines = [f"{one.name} = {one.value!r}  ({one.where})" for one in found]
        checks = parse_checks(current_file())
        lines += [f"check {check.name}: {check.summary}  ({check.where})" for check in checks]
    write_stdout("".join(f"{line}\n" for line in lines or ["nothing is set"]))
    return 0


def describe_run_settings(words: list[str], settings: "list[OptionSetting]") -> list[str]:
    """List the settings for the command of `words`, each with whether it applies to this run."""
    from attncli.cli.config.defaults import fates

    fate = fates(words)
    own = [one for one in settings if list(one.command) == words[: len(one.command)]]
    return [f"{one.name} = {one.value!r}  ({one.where}): {fate(one.option)}" for one in own]
