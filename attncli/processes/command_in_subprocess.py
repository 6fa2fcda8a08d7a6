"""Runs of attn by attn: each in a process of its own, so that a crash of one ends no other."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from attncli.distributed_ranks import remove_rank_variables
from attncli.errors import FAILED_GATE, AttnError, LimitError
from attncli.resource_limits import MEMORY

SETTING = "ATTN_"
"""How environment variables begin that set attn's options."""


class ProcessRun(NamedTuple):
    """How a run ended."""

    code: int
    sentence: str

    @property
    def has_report(self) -> bool:
        """Whether there is a report; failed gates count as a result."""
        return self.code in (0, FAILED_GATE)


class RunStopped(AttnError):
    """A run ended without a report; its exit code is the check's."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = code


def run_command_to_report_file(
    arguments: Sequence[str], path: Path, settings: Mapping[str, str] | None = None
) -> ProcessRun:
    """Run a command line in a process of its own, which writes its report to `path`, atomically.

    `settings`: environment variables that set options, in place of those of this process.
    """
    environment = (
        os.environ if settings is None else merge_settings_into_environment(os.environ, settings)
    )
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "attncli",
            *arguments,
            *list_json_output_arguments(path),
        ],  # nothing of this folder is imported
        env=remove_rank_variables(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return describe_process_exit(done.returncode, done.stderr)


def merge_settings_into_environment(
    environment: Mapping[str, str], settings: Mapping[str, str]
) -> dict[str, str]:
    """The environment with these settings in place of its own; its memory limits are preserved."""
    plain = {name: value for name, value in environment.items() if not name.startswith(SETTING)}
    inherited = {name: value for name, value in environment.items() if name == MEMORY}
    return {**plain, **settings, **inherited}


def list_json_output_arguments(path: Path) -> tuple[str, ...]:
    return ("--format", "json", "--output", str(path), "--no-progress")


def describe_process_exit(code: int, stderr: str = "") -> ProcessRun:
    """Describe how a process has ended by its exit code; a killed one has probably exceeded a limit of the machine."""
    if code < 0:
        sentence = f"its process was lost ({signal.Signals(-code).name}; out of memory?)"
        return ProcessRun(LimitError.exit_code, sentence)
    return ProcessRun(code, last_line_of_stderr(stderr))


def last_line_of_stderr(stderr: str) -> str:
    """The last line of stderr: the reason of a failure."""
    last = stderr.strip().splitlines()[-1:] or ["no reason was given"]
    return last[0].removeprefix("attn: ")
