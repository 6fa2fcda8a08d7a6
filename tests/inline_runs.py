"""The runs that attn starts, in this process: what they find, not how they are started, is what most tests ask.

Each costs seconds in a process of its own, for imports alone. Tests marked `real_runs` have real ones.
"""

import io
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import Any
from unittest import mock

from attncli.processes import command_in_subprocess
from attncli.processes.engines import _warm_worker, local


@contextmanager
def inline_runs() -> Iterator[None]:
    """Within, `attn ci` and `attn sweep` start no process."""
    with (
        mock.patch.object(command_in_subprocess, "subprocess", SimpleNamespace(run=run, DEVNULL=None)),
        mock.patch.object(local, "subprocess", SimpleNamespace(Popen=InlineWorker, PIPE=None, DEVNULL=None)),
    ):  # fmt: skip
        yield


def run(
    command: Sequence[str], env: Mapping[str, str], **_: Any
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `python -m attncli`."""
    from attncli.cli.main import run_command_line as run_words

    words = command[command.index("attncli") + 1 :]
    said = io.StringIO()
    with (
        mock.patch.dict(os.environ, env, clear=True),
        mock.patch("sys.argv", ["attn", *words]),
        redirect_stdout(io.StringIO()),
        redirect_stderr(said),
    ):
        code = run_words(words)
    return subprocess.CompletedProcess(command, code, "", said.getvalue())


class InlineWorker:
    """A worker of the engine `local` that does each job as it is written to its stdin."""

    def __init__(self, command: Sequence[str], **_: Any) -> None:
        assert command[-1] == _warm_worker.__name__
        answers, self.told = os.pipe()
        self.stdout = os.fdopen(answers)
        self.stdin = self
        self.line = ""

    def write(self, text: str) -> None:
        self.line += text
        if self.line.endswith("\n"):
            os.write(self.told, f"{_warm_worker.run_job_line(self.line)}\n".encode())
            self.line = ""

    def flush(self) -> None: ...

    def poll(self) -> None: ...

    def terminate(self) -> None: ...

    def wait(self, _: float = 0.0) -> int:
        return 0

    def close(self) -> None:
        os.close(self.told)
