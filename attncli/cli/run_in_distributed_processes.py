"""One command in several processes: the first prints, and all end with the same exit code."""

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from attncli.cli.command_tree import parse_command
from attncli.cli.parameter_names_as_options import replace_parameters_by_options
from attncli.declare.command_table import MODEL_COMMANDS
from attncli.distributed_ranks import read_launch_environment
from attncli.errors import AttnError
from attncli.io.standard_streams import print_to_stderr

if TYPE_CHECKING:
    from typer import Context

SHARED = (*MODEL_COMMANDS, "sweep")
"""Commands with texts or models to distribute; the first process runs all others alone."""
INTERRUPTED = 130
TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Environment variable that only torchrun sets."""
FINISHED = (0, 1)
"""Exit codes of runs that have left their report."""


def run_distributed(
    arguments: Sequence[str],
    run: Callable[[Sequence[str]], int],
    complain: Callable[[str, int], int],
) -> int:
    """Run the command on this rank, and agree with the others on how it ended."""
    from attncli.cli import app  # noqa: F401 (it enrols the commands)

    first, line = read_launch_environment().is_rank_zero, parse_command(arguments)
    if not can_distribute_command(line):
        return run(arguments) if first else 0
    heard = None if first else buffer_and_silence_output()
    from attncli.processes.termination_signals import (
        print_message_on_termination,
        print_signal_message,
    )

    print_message_on_termination(print_signal_message)
    code = run_command_on_rank(arguments, run, complain)
    from attncli.processes.rank_communication import LINE, exchange_exit_codes, exit_process
    from attncli.processes.resume_cache import PARTS

    if code == INTERRUPTED:  # the others are not asked: they are interrupted, too
        exit_process(code)
    message = find_last_buffered_line(heard) if heard is not None and code else ""
    ended = exchange_exit_codes(code, message)
    if message and LINE.broken:  # there is nobody left to say it
        print_to_stderr(message, sys.__stderr__)
    if first and ended.code and not code:
        complain(ended.message, ended.code)
    if first and ended.code and TORCHRUN in os.environ:
        print_signal_message(explain_exit_code_under_torchrun(ended.code, line))
    if ended.code in FINISHED:
        PARTS.delete_saved_results()
    exit_process(ended.code)


def explain_exit_code_under_torchrun(code: int, line: "Context") -> str:
    """Explain the exit code that torchrun hides: it exits with 1 for any failure."""
    message = (
        f"this is exit code {code}; torchrun itself ends with 1, after a traceback that is not ours"
    )
    if code in FINISHED and line.params.get("output") is not None:
        message += ": the report is written, gate it with `attn check`"
    return f"{message}."


def buffer_and_silence_output() -> io.StringIO:
    """Silence this process; its output is buffered in case that it fails alone."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)
    sys.stderr = heard = io.StringIO()
    return heard


def run_command_on_rank(
    arguments: Sequence[str],
    run: Callable[[Sequence[str]], int],
    complain: Callable[[str, int], int],
) -> int:
    """Run the command on this rank and return its exit code, whatever happens."""
    # What goes wrong between processes is said here in one sentence, not by torch in forty lines.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    from attncli.processes.rank_communication import synchronize_ranks

    try:
        synchronize_ranks()
    except AttnError as error:
        return complain(replace_parameters_by_options(str(error)), error.exit_code)
    return run(arguments)


def can_distribute_command(line: "Context") -> bool:
    """Whether there are texts or models to share out; a training is one piece of work."""
    return line.command_path.removeprefix("attn ") in SHARED


def find_last_buffered_line(heard: io.StringIO) -> str:
    """The last line of this rank's buffered output."""
    lines = heard.getvalue().strip().splitlines() or ["no reason was given"]
    return lines[-1].removeprefix("attn: ")
