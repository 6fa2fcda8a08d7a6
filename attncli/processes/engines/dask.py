import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from attncli.errors import UsageError
from attncli.processes.command_in_subprocess import ProcessRun
from attncli.processes.engines import (
    Engine,
    EngineOptions,
    Outcomes,
    make_missing_library_error,
    refuse_unknown_engine_options,
)
from attncli.processes.engines._futures import (
    make_outcome_of_lost_job,
    make_scheduler_lost_error,
    silence_library_loggers,
)
from attncli.processes.job_sent_to_worker import Job, run_job

OWN = ("workers", "memory_limit")
"""Of a cluster on this machine."""


def dask(where: str, options: EngineOptions) -> Engine:
    """A scheduler, as in dask:tcp://host:8786, or workers here; other --engine-options are resources of each item: gpu=.5."""
    try:
        import distributed
    except ImportError:
        raise make_missing_library_error("dask", "dask", "dask") from None
    if where:
        for name in OWN:
            if name in options:
                raise UsageError(
                    f"{name} of `engine_options`: the workers of {where} are there already, leave it out."
                )
    resources = {name: value for name, value in options.items() if name not in OWN}
    for name, value in resources.items():
        if isinstance(value, str):
            refuse_unknown_engine_options(
                "dask", {name: value}, (*OWN, "and resources with numbers")
            )
    return partial(run_jobs_on_dask, distributed, where, options, resources)


def run_jobs_on_dask(
    distributed: Any,
    where: str,
    options: EngineOptions,
    resources: EngineOptions,
    jobs: Iterable[Job],
    total: int,
) -> Outcomes:
    """Run every item as a task; one whose worker is lost is not retried, since it might kill other
    workers too."""
    with (
        silence_library_loggers("distributed", "tornado", "asyncio"),
        open_client(distributed, where, options, resources, total) as client,
    ):
        places = {
            client.submit(
                run_job, job, pure=False, retries=0, resources=dict(resources) or None
            ): job.place
            for job in jobs
        }
        try:
            for future in distributed.as_completed(list(places)):
                yield places[future], read_dask_outcome(future)
        finally:
            with suppress(OSError):
                client.cancel(list(places), force=True)


def read_dask_outcome(future: Any) -> ProcessRun:
    """Of a task that is over; a client without its scheduler calls all that is left cancelled, or closes."""
    from concurrent.futures import CancelledError

    try:
        error = future.exception() if future.status != "finished" else None
        found: ProcessRun = future.result() if error is None else make_outcome_of_lost_job(error)
    except (CancelledError, OSError):
        raise make_scheduler_lost_error("the scheduler of dask") from None
    return found


@contextmanager
def open_client(
    distributed: Any, where: str, options: EngineOptions, resources: EngineOptions, total: int
) -> Iterator[Any]:
    """Of the scheduler that there is, or of one that lives as long as the sweep."""
    import os

    import dask as library

    quiet = {"distributed.scheduler.allowed-failures": 0, "logging.distributed": "critical"}
    with library.config.set(quiet):
        if where:
            try:
                client = distributed.Client(where, timeout=10)
            except (OSError, TimeoutError, ValueError) as error:
                raise UsageError(
                    f"`engine='dask'`: no scheduler answers at {where}: {error}."
                ) from None
            with client:
                yield client
            return
        workers = int(options.get("workers", 0)) or min(total, os.cpu_count() or 1)
        cluster = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=options.get("memory_limit", "auto"),
            resources=dict(resources),
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
        with cluster, distributed.Client(cluster) as client:
            yield client
