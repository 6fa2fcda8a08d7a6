"""The command line as tests run it: in this process where that will do, else as a program of its own."""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from attncli.cli.main import run_command_line

SMALL = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2", "--seeds", "2")
ONE = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2", "--seeds", "1")
PLAIN: Mapping[str, str] = {
    name: value
    for name, value in os.environ.items()
    if name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "GITHUB_ACTIONS", "TTY_COMPATIBLE")
}
"""The environment without what changes colours and widths."""

ATTN = (sys.executable, "-m", "attncli")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def attn(*arguments: str) -> Outcome:
    """One command in this process, on what is no terminal."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, PLAIN, clear=True),
        mock.patch.object(sys, "argv", ["attn", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = run_command_line(arguments)
    foreign = [*foreign_options(arguments, err.getvalue())]
    assert not foreign, f"{arguments}: options that it has not: {foreign} in {err.getvalue()}"
    exponents = EXPONENT.findall(out.getvalue() + err.getvalue())
    assert not exponents, f"{arguments}: numbers below 1e9 with an exponent: {exponents}"
    return Outcome(code, out.getvalue(), err.getvalue())


def attn_program(
    *arguments: str | bytes, env: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """One command as a program."""
    defaults: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run(
        [*ATTN, *arguments],
        env={**PLAIN, **(env or {})},
        text=True,
        check=False,
        **{**defaults, **options},
    )


EXPONENT = re.compile(r"\d(?:\.\d+)?e\+0[0-8](?!\d)")
"""A number that reads better in full, as it is in the tables."""
NAMED = re.compile(r"(?<![\w'=-])--[a-z][a-z-]+")
"""An option in a sentence; what stands in quotes was typed."""
OF_ALL = {"--help", "--help-all", "--debug"}
UNKNOWN = re.compile("no such option|has become a command")
"""Sentences about an option that is not there."""


def foreign_options(arguments: tuple[str, ...], said: str) -> Iterator[str]:
    """Options of which a question's sentences speak and which it has not, but where they name another command."""
    table = options_by_command()
    asked = next((path for path in table if arguments[: len(path)] == path), None)
    if asked is None:
        return
    for line in said.splitlines():
        for part in re.split(r"\battn (?=[a-z])", line):
            other = next((path for path in table if part.startswith(" ".join(path))), asked)
            known = {*OF_ALL, *table[asked], *table[other]}
            yield from (
                () if UNKNOWN.search(line) else (o for o in NAMED.findall(part) if o not in known)
            )


@cache
def options_by_command() -> dict[tuple[str, ...], set[str]]:
    """Of the commands that ask a question; the others speak of runs of these."""
    import attncli.cli.app  # noqa: F401  (it enrols the commands)
    from attncli.cli.command_tree import iterate_commands, root_command

    others = {"check", "compare", "ci", "sweep", "config", "list", "guide"}
    return {
        path: {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
        for path, command in iterate_commands(root_command(), ())
        if path[0] not in others
    }


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
