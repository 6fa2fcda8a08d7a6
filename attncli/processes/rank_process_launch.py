"""Processes that attn starts with torch's launcher: one sentence and one exit code for all of them."""

import logging
import os
import random
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from attncli.distributed_ranks import STARTED
from attncli.errors import LimitError

PROGRAM = ("-P", "-m", "attncli")
"""Arguments of Python; -P keeps it from importing files of the current folder."""

OWN_PORTS = range(20_000, 32_768)
"""Above those of well-known services, below those that Linux, macOS and Windows hand out."""

POLLED = 0.1
"""Seconds between two polls of the processes."""


def run_command_in_rank_processes(count: int, words: Sequence[str], parts: Path | None) -> int:
    """Run the command line in `count` processes; only a killed process is reported here.

    `parts`: the folder of finished texts, for that sentence.
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
            envs=make_environments_of_ranks(count),
            logs_specs=DefaultLogsSpecs(log_dir=scratch),
        )
        try:
            result = context.wait(period=POLLED)
        except SignalException as stopped:
            context.close()
            exit_process_by_signal(signal.Signals(stopped.sigval))
    return combine_exit_codes(result.failures if result else {}, parts)


def make_environments_of_ranks(count: int) -> dict[int, dict[str, str]]:
    """Environment of each rank, as torchrun sets it; the ranks share the cores."""
    threads = os.environ.get("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
    shared = {
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(find_free_port()),
        "OMP_NUM_THREADS": threads,
        STARTED: "1",
    }
    return {rank: {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)}


def find_free_port() -> int:
    """A free port. The processes bind it seconds later, so it is one below those that the system
    hands out meanwhile to whoever asks for any port."""
    candidates = random.SystemRandom().sample(OWN_PORTS, 20)
    return next(filter(is_port_free, candidates), 0) or bind_port(0)


def is_port_free(port: int) -> bool:
    try:
        return bind_port(port) == port
    except OSError:
        return False


def bind_port(port: int) -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", port))
        return int(found.getsockname()[1])


def exit_process_by_signal(stopped: signal.Signals) -> NoReturn:
    """End like a single process: the command line reports Ctrl-C, the shell any other signal."""
    if stopped is signal.SIGINT:
        raise KeyboardInterrupt
    signal.signal(stopped, signal.SIG_DFL)
    os.kill(os.getpid(), stopped)
    raise KeyboardInterrupt  # never reached: the signal ends the process


def combine_exit_codes(failures: dict[int, Any], parts: Path | None) -> int:
    """The exit code of all processes; a killed process probably exceeded a limit of the machine.

    The launcher ends the slower processes by SIGTERM after the first failure: that is ignored.
    """
    if not failures:
        return 0
    first = min(failures.values(), key=lambda failure: (failure.exitcode < 0, failure.timestamp))
    late = {-signal.SIGTERM} if first.exitcode > 0 else set()
    killed = [f for f in (first, *failures.values()) if f.exitcode < 0 and f.exitcode not in late]
    if not killed:
        return int(first.exitcode)
    name = signal.Signals(-killed[0].exitcode).name
    inherited = (
        ""
        if parts is None
        else f": what was finished is kept in {parts}, and the same command goes on from there"
    )
    raise LimitError(
        f"a process of this run was lost ({name}; out of memory?){inherited or ': run the same command again'}."
    )
