"""The commands and their order in `attn --help`."""

import os
from typing import Annotated

import typer

from attncli.cli.help import Command, Group
from attncli.cli.root import enrol
from attncli.commands.about.check import EXAMPLES as CHECK_EXAMPLES
from attncli.commands.about.check import check
from attncli.commands.about.ci.command import EXAMPLES as CI_EXAMPLES
from attncli.commands.about.ci.command import ci
from attncli.commands.about.compare.terminal import EXAMPLES as COMPARE_EXAMPLES
from attncli.commands.about.compare.terminal import compare
from attncli.commands.about.config import app as config_app
from attncli.commands.about.guide import EXAMPLES as GUIDE_EXAMPLES
from attncli.commands.about.guide import guide
from attncli.commands.about.list.command import EXAMPLES as LIST_EXAMPLES
from attncli.commands.about.list.command import list_things
from attncli.commands.about.sweep.terminal import EXAMPLES as SWEEP_EXAMPLES
from attncli.commands.about.sweep.terminal import sweep
from attncli.commands.approximate.terminal import EXAMPLES as APPROXIMATE_EXAMPLES
from attncli.commands.approximate.terminal import approximate
from attncli.commands.generate.terminal import app as generate
from attncli.commands.inspect_model.terminal import EXAMPLES as INSPECT_EXAMPLES
from attncli.commands.inspect_model.terminal import inspect_model
from attncli.commands.paths.terminal import EXAMPLES as PATHS_EXAMPLES
from attncli.commands.paths.terminal import paths
from attncli.commands.rank_collapse.terminal import EXAMPLES, rank_collapse
from attncli.io.standard_output import to_stdout

app = typer.Typer(
    name="attn",
    cls=Group,
    help="Measure attention matrices exactly, say what the numbers mean, fail the build when they "
    "go wrong.\n\nExit codes: 0 fine, 1 a gate failed, 2 usage, 3 the input cannot be analysed, "
    "4 memory or disk, 5 no baseline to compare with, 70 a bug, 130 interrupted.",
    epilog="attn rank-collapse\nattn inspect-model gpt2\nattn rank-collapse --help-all\nattn guide metrics",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def show_version(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from attncli import __version__

        to_stdout(f"attn {__version__}\n")
        raise typer.Exit


@app.callback()
def attn(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show a traceback on errors; allowed anywhere on the line."),
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help=(
                "Read options and checks from FILE instead of attn.toml or pyproject.toml; allowed anywhere on the "
                "line."
            ),
        ),
    ] = None,
) -> None:
    from attncli.cli.config.settings import CONFIG, default_map

    if config is not None:
        os.environ[CONFIG] = config  # for the runs that this one starts, too
    context.default_map = default_map(context.command)


app.command("rank-collapse", cls=Command, epilog=EXAMPLES)(rank_collapse)
app.command("approximate", cls=Command, epilog=APPROXIMATE_EXAMPLES)(approximate)
app.command("inspect-model", cls=Command, epilog=INSPECT_EXAMPLES)(inspect_model)
app.command("paths", cls=Command, epilog=PATHS_EXAMPLES)(paths)
app.command("check", cls=Command, epilog=CHECK_EXAMPLES)(check)
app.command("compare", cls=Command, epilog=COMPARE_EXAMPLES)(compare)
app.command(
    "sweep", cls=Command, epilog=SWEEP_EXAMPLES, context_settings={"ignore_unknown_options": True}
)(sweep)
app.command("ci", cls=Command, epilog=CI_EXAMPLES)(ci)
app.add_typer(config_app, name="config")
app.add_typer(generate, name="generate")
app.command("list", cls=Command, epilog=LIST_EXAMPLES)(list_things)
app.command("guide", cls=Command, epilog=GUIDE_EXAMPLES)(guide)
enrol(app)
