"""Helpers of engines that submit jobs to a scheduler: outcomes of lost jobs, and silent logs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from attncli.errors import LimitError
from attncli.processes.command_in_subprocess import ProcessRun

SILENT = logging.CRITICAL + 1


def make_outcome_of_lost_job(error: BaseException | None) -> ProcessRun:
    """The outcome of a job whose worker was killed, or which its scheduler has given up."""
    first = (str(error).strip().splitlines() or [""])[0]
    why = f"{type(error).__name__}: {first}" if error is not None else "no reason was given"
    return ProcessRun(LimitError.exit_code, f"its worker was lost ({why})")


def make_scheduler_lost_error(what: str) -> LimitError:
    """The error for a lost scheduler; reports of finished jobs remain in the folder."""
    return LimitError(f"{what} was lost: finished items are kept, run the same command again.")


@contextmanager
def silence_library_loggers(*libraries: str) -> Iterator[None]:
    """Silence the libraries' loggers, existing or not yet created: their messages are for
    administrators of a cluster."""
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] in libraries]
    loggers = [logging.getLogger(name) for name in {*libraries, *names}]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(SILENT)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)
