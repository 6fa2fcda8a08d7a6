"""Exchange objects between all ranks over torch.distributed.

All ranks make the same calls in the same order. A rank that leaves early says so in its next call,
so the others learn it there instead of waiting; a killed one closes its connections, which ends the
call of the others at once.
"""

import os
import socket
import sys
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, NoReturn

from attncli.distributed_ranks import is_started_by_attn, read_launch_environment
from attncli.errors import AttnError, LimitError
from attncli.resource_limits import divide_free_memory_between_processes, free_memory

MEETING = timedelta(minutes=10)
"""For all processes to come together at the start."""
WORK = timedelta(days=7)
"""For the slowest share. A process that dies is noticed at once; only a machine that vanishes is waited for."""

TOGETHER = timedelta(minutes=1)
"""Timeout of ranks that do every step together, so that a rank that fails alone does not wait for
the others."""

LOST = (
    "another process of this run was lost before its share was done (killed, or out of memory?): nothing is reported; "
    "run the same command again."
)


class RankExit(NamedTuple):
    """How a rank has ended."""

    code: int
    message: str
    """Its last sentence; empty where it was fine."""


class OtherRankFailed(AttnError):
    """Another rank has failed, so this one ends too, with its code."""

    def __init__(self, left: RankExit) -> None:
        super().__init__(left.message or LOST)
        self.exit_code = left.code or LimitError.exit_code


class RankConnection:
    """The connection between the ranks."""

    def __init__(self) -> None:
        self.group: Any = None
        self.over = False
        """Whether a rank has left or was lost: calls would get no answer."""
        self.broken = False
        """Whether one was lost."""
        self.processes: list[tuple[str, int]] = []
        """Machine and number of each rank's process."""

    def connect_to_other_ranks(self) -> None:
        """Connect to the other ranks. Objects always use gloo, whatever backend the tensors of a
        model use."""
        import torch
        import torch.distributed as dist

        if self.group is None:
            if not dist.is_initialized():
                backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
                dist.init_process_group(backend, timeout=MEETING)
            self.group = dist.new_group(backend="gloo", timeout=WORK)

    def use_short_timeout(self) -> None:
        """Use a short timeout from now on: the ranks need each other in every step."""
        import torch.distributed as dist

        self.group = dist.new_group(backend="gloo", timeout=TOGETHER)

    def gather_one_object_per_rank(self, mine: object) -> list[Any]:
        """Gather one object per rank, in the order of the ranks."""
        import torch.distributed as dist

        found: list[Any] = [None] * read_launch_environment().size
        try:
            dist.all_gather_object(found, mine, self.group)
        except RuntimeError as error:
            self.over = self.broken = True
            if is_started_by_attn():
                exit_process(LimitError.exit_code)
            raise LimitError(LOST) from error
        return found


LINE = RankConnection()
"""Of this process."""


def gather_from_ranks(mine: object) -> list[Any]:
    """Gather one object per rank; if a rank has left, exit as it did."""
    found = LINE.gather_one_object_per_rank(mine)
    left = [each for each in found if isinstance(each, RankExit)]
    if left:
        LINE.over = True
        raise OtherRankFailed(left[0])
    return found


def exchange_exit_codes(code: int, message: str) -> RankExit:
    """Exchange how all ranks have ended, in the last call of each; the first failure counts before all else."""
    mine = RankExit(code, message)
    if LINE.over or LINE.group is None:
        return mine
    try:
        found = LINE.gather_one_object_per_rank(mine)
    except LimitError:  # all that was to be shared has been, so nothing is missing
        return mine
    LINE.over = True
    ended = [each for each in found if isinstance(each, RankExit) and each.code]
    return ended[0] if ended else mine


def synchronize_ranks() -> None:
    """Synchronize before the work, so that from then on every rank notices a failure of another."""
    try:
        LINE.connect_to_other_ranks()
        here = socket.gethostname()
        met = LINE.gather_one_object_per_rank((here, os.getpid(), free_memory()))
    except RuntimeError as error:
        LINE.over = LINE.broken = True
        raise LimitError(
            f"the {read_launch_environment().size} processes did not find each other within {MEETING}: are all of them started, "
            "with the same MASTER_ADDR and MASTER_PORT?"
        ) from error
    LINE.processes = [(host, process) for host, process, _ in met]
    divide_free_memory_between_processes([free for host, _, free in met if host == here])


def exit_process(code: int) -> NoReturn:
    """Exit this process, after everything is printed and written.

    The interpreter's own exit would stop torch's threads while they run, which aborts one process
    in ten ("terminate called without an active exception"), or wait for processes that are gone.
    """
    for stream in (sys.stdout, sys.stderr, sys.__stderr__):
        with suppress(OSError):
            if stream is not None:
                stream.flush()
    os._exit(code)
