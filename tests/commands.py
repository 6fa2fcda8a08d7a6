"""The command line as tests run it: in this process where that will do, else as a program of its own."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from attncli.cli.main import run

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
        code = run(arguments)
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


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
