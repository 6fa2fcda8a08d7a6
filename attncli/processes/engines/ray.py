import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from attncli.errors import UsageError
from attncli.processes.command_in_subprocess import ProcessRun
from attncli.processes.engines import (
    Engine,
    EngineOptions,
    Outcomes,
    make_missing_library_error,
    refuse_unknown_engine_options,
)
from attncli.processes.engines._futures import make_scheduler_lost_error
from attncli.processes.job_sent_to_worker import Job

DRIVER = "attncli.processes.engines._ray_driver"
REFUSED = -1
"""Index in place of a job's: the line is the reason why there is no cluster."""
ENDS = 20.0
"""Seconds that the driver may take to end before it is killed."""
KNOWN = ("num_cpus", "num_gpus", "memory")
"""Ray's names of the resources of an item."""


def ray(where: str, options: EngineOptions) -> Engine:
    """A cluster, as in ray:auto, or one on this machine; --engine-options num_gpus=.5 is what each item takes."""
    try:
        import ray as _library  # noqa: F401
    except ImportError:
        raise make_missing_library_error("ray", "ray", "ray") from None
    refuse_unknown_engine_options("ray", options, KNOWN)
    for name, value in options.items():
        if isinstance(value, str):
            raise UsageError(f"{name}={value} of `engine_options`: it must be a number.")
    return partial(run_jobs_on_ray, where, options)


def run_jobs_on_ray(
    where: str, options: EngineOptions, jobs: Iterable[Job], total: int
) -> Outcomes:
    """Run the jobs through a driver process, which ends if its cluster is lost."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    ) as driver:
        try:
            yield from read_outcomes_of_ray_driver(driver, [(where, options), *jobs])
        finally:
            stop_ray_driver(driver)


def read_outcomes_of_ray_driver(
    driver: subprocess.Popen[str], references: Sequence[object]
) -> Outcomes:
    """Yield outcomes as they come; a driver that ends before its last job has lost its cluster."""
    assert driver.stdin is not None
    assert driver.stdout is not None
    with suppress(BrokenPipeError):
        driver.stdin.write("".join(f"{json.dumps(each)}\n" for each in references) + "\n")
        driver.stdin.flush()
    for _ in references[1:]:
        line = driver.stdout.readline()
        if not line:
            raise make_scheduler_lost_error("ray's cluster")
        place, found = json.loads(line)
        if place == REFUSED:
            raise UsageError(f"`engine='ray'`: {found}.")
        yield place, ProcessRun(*found)


def stop_ray_driver(driver: subprocess.Popen[str]) -> None:
    """Stop the driver by closing its stdin; it ends its tasks."""
    assert driver.stdin is not None
    with suppress(BrokenPipeError):
        driver.stdin.close()
    try:
        driver.wait(ENDS)
    except subprocess.TimeoutExpired:
        driver.kill()
