import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from attncli.errors import UsageError, first_line
from attncli.processes.engines import Engine, EngineOptions, Outcomes, needs
from attncli.processes.engines._futures import lost
from attncli.processes.jobs import Job, made
from attncli.processes.runs import ProcessRun

POLLED = 0.2
"""Seconds between two looks at the jobs; the library itself asks Slurm far less often."""
COMMON = ("timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node", "name", "stderr_to_stdout")  # fmt: skip
"""Options that every executor of submitit knows; all others are Slurm's own."""
CLUSTERS = ("", "slurm", "local")
LOGS = ".submitit"
A_DAY, A_WEEK = 24 * 60, 7 * 24 * 60


def submitit(where: str, options: EngineOptions) -> Engine:
    """Job arrays of Slurm with --engine-options partition=…,gpus_per_node=1,timeout_min=60; submitit:local runs them here."""
    try:
        import submitit as library
    except ImportError:
        raise needs("submitit", "submitit", "slurm") from None
    if where not in CLUSTERS:
        raise UsageError(f"`engine={f'submitit:{where}'!r}`: write submitit, submitit:slurm or submitit:local.")  # fmt: skip
    try:
        executor = library.AutoExecutor(folder=Path(LOGS) / "%j", cluster=where or None)
        executor.update_parameters(
            **{"name": "attn-sweep", "timeout_min": minutes(executor), **spelled(options)}
        )
    except (NameError, ValueError, TypeError, AssertionError, RuntimeError) as error:
        raise UsageError(f"`engine='submitit'`: {first_line(error)}.") from None
    return partial(run, library, executor)


def minutes(executor: Any) -> int:
    """An item's time, if nobody says; the library's own five minutes would end most of them."""
    return A_WEEK if executor.cluster == "local" else A_DAY


def spelled(options: EngineOptions) -> Mapping[str, Any]:
    return {
        name if name in COMMON or name.startswith("slurm_") else f"slurm_{name}": value
        for name, value in options.items()
    }


class Resumed:
    """A job that Slurm may take off its node and start again: it goes on with its finished texts."""

    def __call__(self, job: Job) -> ProcessRun:
        return made(job)

    def checkpoint(self, job: Job) -> Any:
        """Asked for by submitit when the node is to be given up."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job)


def run(library: Any, executor: Any, jobs: Iterable[Job], total: int) -> Outcomes:
    """One array of all jobs for Slurm; here as many at a time as there are cores, for nobody else holds them back."""
    here = executor.cluster == "local"
    waiting = iter(jobs)
    running: dict[Any, Job] = {}
    try:
        while True:
            room = (os.cpu_count() or 1) - len(running) if here else total
            batch = list(islice(waiting, room)) if room > 0 else []
            if batch:
                submitted = executor.map_array(Resumed(), batch)
                for one in submitted if here else ():
                    one._results_timeout_s = (
                        0  # of files on this machine: what is not there yet never comes
                    )
                running.update(zip(submitted, batch, strict=True))
            if not running:
                return
            yield from finished(running)
            time.sleep(POLLED)
    finally:
        for job in running:
            with suppress(Exception):
                job.cancel(check=False)


def finished(running: dict[Any, Job]) -> Iterator[tuple[int, ProcessRun]]:
    for submitted in [job for job in running if job.done()]:
        place = running.pop(submitted).place
        try:
            found = submitted.result()
        except Exception as error:
            found = lost(error)
        yield place, found
