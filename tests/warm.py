"""Programs in processes of their own that take no seconds for imports: forked from one that has imported everything.

For tests that need another process, not a fresh interpreter: what happens before and during imports is not seen here. That
process is the fork server of the standard library, started with the first test that asks for one; it has no threads.
"""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path
from unittest import mock

from commands import PLAIN

ATTN = "from attncli.cli.main import main; main()"
"""The program."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["everything_loaded"])


def environment(**more: str) -> dict[str, str]:
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    path = os.pathsep.join(path for path in sys.path if path)
    return {**PLAIN, **threads, "PYTHONPATH": path, **more}


class Warm:
    """A running program, with what tests use of `subprocess.Popen`; its stdin is empty."""

    def __init__(
        self, program: str, words: Sequence[str], env: Mapping[str, str], folder: Path
    ) -> None:
        with mock.patch.dict(os.environ, environment(), clear=True):
            forkserver.ensure_running()  # later ones go to the same process
        self.streams = Path(tempfile.mkdtemp(prefix="warm-"))
        given = (program, [*words], {**env}, str(folder), str(self.streams))
        self.process = FORKS.Process(target=in_child, args=given, daemon=True)
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, seconds: float) -> int | None:
        self.process.join(seconds)
        return self.process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()

    def communicate(self) -> tuple[str, str]:
        """What it has said on stdout and stderr, once it has ended."""
        self.process.join()
        files = (self.streams / name for name in ("1", "2"))
        out, err = (file.read_text() if file.exists() else "" for file in files)
        shutil.rmtree(self.streams)
        return out, err


def in_child(
    program: str, words: Sequence[str], env: Mapping[str, str], folder: str, streams: str
) -> None:
    assert "transformers" in sys.modules, "the process that this one is forked from is not warm"
    os.environ.clear()
    os.environ.update(env)
    os.chdir(folder)
    for number in (1, 2):
        os.dup2(os.open(f"{streams}/{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False)  # type: ignore[misc] # noqa: SIM115
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["attn", *words]
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
