"""The program that connects to ray for the engine of that name: ray ends its process if its cluster
is lost.

Stdin has the settings, a job on each line, an empty line; stdout then has the index and outcome of
each job. The program exits when its stdin closes, so that nothing goes on running if the driver was
killed.
"""

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import ray

from attncli.errors import shorten_error_text
from attncli.processes.command_in_subprocess import ProcessRun
from attncli.processes.engines._futures import make_outcome_of_lost_job
from attncli.processes.engines.ray import REFUSED
from attncli.processes.job_sent_to_worker import Job, run_job


def run_jobs_from_stdin_on_ray() -> None:
    """Serve jobs. Other output to stdout does not reach the engine, and Ctrl-C is left to the
    engine."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        where, options = json.loads(sys.stdin.readline())
        for answer in run_jobs_as_ray_tasks(where, options):
            print(json.dumps(answer), file=answers, flush=True)
        ray.shutdown()


def run_jobs_as_ray_tasks(
    where: str, options: dict[str, Any]
) -> Iterator[tuple[int, ProcessRun | str]]:
    """Run every job as a task without retries."""
    try:
        connect_cluster(where)
    except (ConnectionError, ValueError, RuntimeError) as error:
        yield REFUSED, shorten_error_text(error)
        return
    task = ray.remote(**{"num_cpus": 1, **options, "max_retries": 0})(run_job)
    places = {task.remote(job): job.place for job in read_jobs_from_stdin()}
    waiting = list(places)
    threading.Thread(target=exit_when_stdin_closes, args=(waiting,), daemon=True).start()
    while waiting:
        (done, *_), _ = ray.wait(waiting, num_returns=1)
        waiting.remove(done)
        yield places[done], read_ray_result(done)


def read_jobs_from_stdin() -> Iterator[Job]:
    for line in iter(sys.stdin.readline, "\n"):
        place, words, *rest = json.loads(line)
        yield Job(place, tuple(words), *rest)


def exit_when_stdin_closes(waiting: list[Any]) -> None:
    """Exit when stdin closes, and cancel the remaining jobs."""
    sys.stdin.read()
    for left in list(waiting):
        ray.cancel(left, force=True)
    ray.shutdown()
    os._exit(0)


def read_ray_result(done: Any) -> ProcessRun:
    try:
        found: ProcessRun = ray.get(done)
    except ray.exceptions.RayError as error:
        return make_outcome_of_lost_job(error)
    return found


def connect_cluster(where: str) -> None:
    """Join the cluster, or start one that ends with the sweep; usage statistics are off."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray.init(
        address=where or "local",
        include_dashboard=False if not where else None,
        log_to_driver=False,
        logging_level=logging.CRITICAL,
    )


if __name__ == "__main__":
    run_jobs_from_stdin_on_ray()
