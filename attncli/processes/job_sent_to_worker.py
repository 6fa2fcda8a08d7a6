"""A run of attn as a value that can be sent to another process or machine, and its execution by a
worker.

A worker that has done one run has imported what the next one needs, so it runs attn in its own
process, as `python -m attncli` does, and captures its output.
"""

import contextlib
import io
import os
import runpy
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from attncli.distributed_ranks import remove_rank_variables
from attncli.errors import AttnError
from attncli.io.remote_files import is_remote_url, write_remote_file
from attncli.processes.command_in_subprocess import (
    SETTING,
    ProcessRun,
    last_line_of_stderr,
    list_json_output_arguments,
    merge_settings_into_environment,
)
from attncli.resource_limits import MEMORY


class Job(NamedTuple):
    """One item of a sweep."""

    place: int
    """Among all items."""
    words: tuple[str, ...]
    """The command line, without the report's path."""
    report: str
    """The file for its report, or an fsspec address."""
    folder: str
    """Where relative names begin."""
    settings: Mapping[str, str]
    """Environment variables that set options; those of the worker itself do not count."""


def run_job(job: Job) -> ProcessRun:
    """Run the job in this process; its report is written whole or not at all."""
    with apply_job_environment(job):
        if not is_remote_url(job.report):
            return run_command_in_this_process(job.words, Path(job.report))
        with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
            path = Path(scratch) / "report.json"
            run = run_command_in_this_process(job.words, path)
            try:
                if run.has_report:
                    write_remote_file(job.report, path.read_bytes())
            except AttnError as error:
                return ProcessRun(error.exit_code, str(error))
            return run


@contextlib.contextmanager
def apply_job_environment(job: Job) -> Iterator[None]:
    """Set the folder and environment of the requesting process, without its rank."""
    before, here = dict(os.environ), Path.cwd()
    os.environ.clear()
    os.environ.update(merge_settings_into_environment(remove_rank_variables(before), job.settings))
    try:
        # on another machine, where all names are whole
        with contextlib.suppress(FileNotFoundError):
            os.chdir(job.folder)
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        os.chdir(here)


def select_option_environment_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that set options of started runs."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(SETTING) and name != MEMORY
    }


def run_command_in_this_process(words: Sequence[str], path: Path) -> ProcessRun:
    """Run like `python -m attncli`, but in this process."""
    before, output = sys.argv, io.StringIO()
    sys.argv = ["attn", *words, *list_json_output_arguments(path)]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(output):
            runpy.run_module("attncli", run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        return ProcessRun(code, last_line_of_stderr(output.getvalue()))
    finally:
        sys.argv = before
    return ProcessRun(0, "")
