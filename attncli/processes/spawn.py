"""Processes that attn starts by itself, by torch's own launcher: one sentence and one exit code for all of them."""

import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from attncli.errors import LimitError
from attncli.ranks import STARTED

PROGRAM = ("-P", "-m", "attncli")
"""Of Python; nothing of the folder is imported."""

POLLED = 0.1
"""Seconds between two looks at the processes."""


def run_in_processes(count: int, words: Sequence[str], parts: Path | None) -> int:
    """The command line in so many processes; what they say is theirs to say, but that one of them was killed.

    `parts`: where finished texts are kept, for that sentence.
    """
    from torch.distributed.elastic.multiprocessing import (
        DefaultLogsSpecs,
        SignalException,
        start_processes,
    )

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    ranks = range(count)
    with tempfile.TemporaryDirectory(prefix="attn-") as scratch:
        context = start_processes(
            "attn",
            sys.executable,
            args=dict.fromkeys(ranks, (*PROGRAM, *words)),
            envs=rank_environments(count),
            logs_specs=DefaultLogsSpecs(log_dir=scratch),
        )
        try:
            result = context.wait(period=POLLED)
        except SignalException as stopped:
            context.close()
            exit_by_signal(signal.Signals(stopped.sigval))
    return agreed_exit_code(result.failures if result else {}, parts)


def rank_environments(count: int) -> dict[int, dict[str, str]]:
    """Who each process is among the others, as torchrun says it; they share the cores."""
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    shared = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": threads,
        STARTED: "1",
    }
    return {rank: {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def exit_by_signal(stopped: signal.Signals) -> NoReturn:
    """As one process would: Ctrl-C is told by the command line, another signal is the shell's to tell."""
    if stopped is signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(stopped, signal.SIG_DFL)
    os.kill(os.getpid(), stopped)
    raise KeyboardInterrupt  # never reached: the signal ends the process


def agreed_exit_code(failures: dict[int, Any], parts: Path | None) -> int:
    """What they have agreed on; a process that was killed is a limit of the machine's, as far as anybody knows.

    The launcher ends by SIGTERM whoever is a little slower than the first to fail: that says nothing.
    """
    if not failures:
        return 0
    first = min(failures.values(), key=lambda failure: (failure.exitcode < 0, failure.timestamp))
    late = {-signal.SIGTERM} if first.exitcode > 0 else set()
    killed = [f for f in (first, *failures.values()) if f.exitcode < 0 and f.exitcode not in late]
    if not killed:
        return int(first.exitcode)
    name = signal.Signals(-killed[0].exitcode).name
    kept = (
        ""
        if parts is None
        else f": what was finished is kept in {parts}, and the same command goes on from there"
    )
    raise LimitError(f"a process of this run was lost ({name}; out of memory?){kept or ': run the same command again'}.")  # fmt: skip
