import contextlib
import io
import logging
import os
from collections.abc import Iterable
from functools import partial
from typing import Any

from attncli.errors import UsageError, first_line
from attncli.processes.engines import Engine, EngineOptions, Outcomes, needs, refuse_options
from attncli.processes.engines._futures import lost
from attncli.processes.jobs import Job, made
from attncli.processes.runs import ProcessRun

KNOWN = ("num_cpus", "num_gpus", "memory")
"""What each item takes, in ray's words."""


def ray(where: str, options: EngineOptions) -> Engine:
    """A cluster, as in ray:auto, or one on this machine; --engine-options num_gpus=.5 is what each item takes."""
    try:
        import ray as library
    except ImportError:
        raise needs("ray", "ray", "ray") from None
    refuse_options("ray", options, KNOWN)
    for name, value in options.items():
        if isinstance(value, str):
            raise UsageError(f"{name}={value} of `engine_options`: it must be a number.")
    return partial(run, library, where, options)


def run(
    library: Any, where: str, options: EngineOptions, jobs: Iterable[Job], total: int
) -> Outcomes:
    """Every item is a task that is tried once; what ray prints of lost workers is told by the items themselves."""
    with contextlib.redirect_stdout(io.StringIO()):
        begin(library, where)
        task = library.remote(**{"num_cpus": 1, **options, "max_retries": 0})(made)
        places = {task.remote(job): job.place for job in jobs}
        waiting = list(places)
        try:
            while waiting:
                (done, *_), waiting = library.wait(waiting, num_returns=1)
                yield places[done], result(library, done)
        finally:
            for left in waiting:
                library.cancel(left, force=True)
            library.shutdown()


def result(library: Any, done: Any) -> ProcessRun:
    try:
        found: ProcessRun = library.get(done)
    except library.exceptions.RayError as error:
        return lost(error)
    return found


def begin(library: Any, where: str) -> None:
    """Join the cluster, or start one that ends with the sweep; nothing is sent to its makers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        library.init(
            address=where or "local",
            include_dashboard=False if not where else None,
            log_to_driver=False,
            logging_level=logging.CRITICAL,
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise UsageError(f"`engine='ray'`: {first_line(error)}.") from None
