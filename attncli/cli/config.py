"""`attn config`"""

import typer

from attncli.cli.help import Command, Group

EXAMPLES = """
attn config show
attn config show --config attn.toml
ATTN_RANK_COLLAPSE_SEEDS=3 attn config show
"""

app = typer.Typer(cls=Group, help="What is set without the command line.", rich_markup_mode=None)


@app.callback()
def config() -> None: ...


@app.command("show", cls=Command, epilog=EXAMPLES)
def show(context: typer.Context) -> int:
    """Which options are set by the environment or a file, and where.

    The command line goes before ATTN_COMMAND_OPTION of the environment, which goes before the file: --config FILE, or
    [tool.attn] in the pyproject.toml of this folder. Tables are commands, keys their options; [checks.NAME] are what
    `attn ci` runs.
    """
    from attncli.cli.checks import checks_of
    from attncli.cli.settings import current_file, settings
    from attncli.cli.writer import to_stdout

    found = settings(context.find_root().command)
    lines = [f"{one.name} = {one.value!r}  ({one.where})" for one in found]
    file = current_file()
    lines += [f"check {check.name}: {check.summary}  ({check.where})" for check in checks_of(file)]
    to_stdout("".join(f"{line}\n" for line in lines or ["nothing is set"]))
    return 0
