"""What engines have in common that hand jobs to a scheduler: how a job that never came back has ended, and silence."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from attncli.errors import LimitError
from attncli.processes.runs import ProcessRun

SILENT = logging.CRITICAL + 1


def lost_job(error: BaseException | None) -> ProcessRun:
    """A worker that was killed, or a job that its scheduler has given up."""
    first = (str(error).strip().splitlines() or [""])[0]
    why = f"{type(error).__name__}: {first}" if error is not None else "no reason was given"
    return ProcessRun(LimitError.exit_code, f"its worker was lost ({why})")


def lost_scheduler(what: str) -> LimitError:
    """Nobody is left who knows of the jobs; what they have finished lies where it is."""
    return LimitError(f"{what} was lost: finished items are kept, run the same command again.")


@contextmanager
def silence_loggers(*libraries: str) -> Iterator[None]:
    """What the libraries log, by loggers that are there or not yet, is for those who look after a cluster."""
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
