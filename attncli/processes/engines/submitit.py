import getpass
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from attncli.errors import UsageError, shorten_error_text
from attncli.processes.command_in_subprocess import ProcessRun
from attncli.processes.engines import Engine, EngineOptions, Outcomes, make_missing_library_error
from attncli.processes.engines._futures import make_outcome_of_lost_job, silence_library_loggers
from attncli.processes.job_sent_to_worker import Job, run_job

POLLED = 0.2
"""Seconds between two polls of the jobs' results."""
ASKED = 10.0
"""Seconds between two questions to Slurm."""
PATIENCE = 30.0
"""Seconds that a result may take to be seen here after Slurm has forgotten its job."""
COMMON = (
    "timeout_min",
    "mem_gb",
    "nodes",
    "cpus_per_task",
    "gpus_per_node",
    "tasks_per_node",
    "name",
    "stderr_to_stdout",
)
"""Options of every executor of submitit; all others are Slurm's own."""
CLUSTERS = ("", "slurm", "local")
LOGS = ".submitit"
A_DAY, A_WEEK = 24 * 60, 7 * 24 * 60


def submitit(where: str, options: EngineOptions) -> Engine:
    """Job arrays of Slurm with --engine-options partition=…,gpus_per_node=1,timeout_min=60; submitit:local runs them here."""
    try:
        import submitit as library
    except ImportError:
        raise make_missing_library_error("submitit", "submitit", "slurm") from None
    if where not in CLUSTERS:
        raise UsageError(
            f"`engine={f'submitit:{where}'!r}`: write submitit, submitit:slurm or submitit:local."
        )
    try:
        executor = library.AutoExecutor(folder=Path(LOGS) / "%j", cluster=where or None)
        executor.update_parameters(
            **{
                "name": "attn-sweep",
                "timeout_min": choose_default_job_timeout(executor),
                **convert_to_slurm_options(options),
            }
        )
    except (NameError, ValueError, TypeError, AssertionError, RuntimeError) as error:
        raise UsageError(f"`engine='submitit'`: {shorten_error_text(error)}.") from None
    return partial(run_jobs_on_slurm, executor)


def choose_default_job_timeout(executor: Any) -> int:
    """An item's default time limit; the library's own five minutes would end most of them."""
    return A_WEEK if executor.cluster == "local" else A_DAY


def convert_to_slurm_options(options: EngineOptions) -> Mapping[str, Any]:
    return {
        name if name in COMMON or name.startswith("slurm_") else f"slurm_{name}": value
        for name, value in options.items()
    }


class ResumableJob:
    """A job that Slurm may requeue: it resumes after its finished texts."""

    def __call__(self, job: Job) -> ProcessRun:
        return run_job(job)

    def checkpoint(self, job: Job) -> Any:
        """Called by submitit before the node is released."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, job)


class SlurmQueue:
    """The jobs that Slurm still knows, by squeue: sacct would need accounting, which many clusters have not."""

    def __init__(self) -> None:
        self.queried_at = -ASKED
        self.job_ids: frozenset[str] | None = None
        self.missed: dict[str, float] = {}
        """Since when a job is unknown."""

    def has_lost_job(self, job: str) -> bool:
        """Whether the job has been unknown for a while; False while Slurm does not answer."""
        now = time.monotonic()
        if now - self.queried_at >= ASKED:
            self.queried_at, self.job_ids = now, list_queued_jobs()
        if self.job_ids is None or job in self.job_ids:
            self.missed.pop(job, None)
            return False
        return now - self.missed.setdefault(job, now) >= PATIENCE


def list_queued_jobs() -> frozenset[str] | None:
    """This user's jobs, each one of an array separately."""
    words = ["squeue", "-h", "-r", "-u", getpass.getuser()]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    environment = {**plain, "SQUEUE_FORMAT": "%i"}  # the user's own may leave jobs out
    try:
        found = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return frozenset(found.stdout.split())


def run_jobs_on_slurm(executor: Any, jobs: Iterable[Job], total: int) -> Outcomes:
    with silence_library_loggers("submitit"):
        yield from submit_job_arrays(executor, jobs, total)


def submit_job_arrays(executor: Any, jobs: Iterable[Job], total: int) -> Outcomes:
    """Submit one array of all jobs to Slurm; locally, as many jobs at a time as there are cores."""
    here = executor.cluster == "local"
    waiting, queue = iter(jobs), SlurmQueue()
    running: dict[Any, Job] = {}
    try:
        while True:
            room = (os.cpu_count() or 1) - len(running) if here else total
            batch = list(islice(waiting, room)) if room > 0 else []
            if batch:
                submitted = executor.map_array(ResumableJob(), batch)
                for one in submitted if here else ():
                    one._results_timeout_s = (
                        0  # of files on this machine: what is not there yet never comes
                    )
                running.update(zip(submitted, batch, strict=True))
            if not running:
                return
            yield from yield_finished_jobs(running, None if here else queue)
            time.sleep(POLLED)
    finally:
        for job in running:
            with suppress(Exception):
                job.cancel(check=False)


def yield_finished_jobs(
    running: dict[Any, Job], queue: SlurmQueue | None
) -> Iterator[tuple[int, ProcessRun]]:
    """Yield the jobs that have a result, and those that will have none."""
    for submitted in list(running):
        found = read_submitit_outcome(submitted, queue)
        if found is not None:
            yield running.pop(submitted).place, found


def read_submitit_outcome(job: Any, queue: SlurmQueue | None) -> ProcessRun | None:
    """The outcome of a job; None while it may still come."""
    there = job.done() if queue is None else is_result_file_written(job)
    if not there:
        return (
            describe_lost_job(job) if queue is not None and queue.has_lost_job(job.job_id) else None
        )
    try:
        found: ProcessRun = job.result()
    except Exception as error:
        return make_outcome_of_lost_job(error)
    return found


def is_result_file_written(job: Any) -> bool:
    """Whether the result exists, without calling sacct as submitit's `done` does; chmod refreshes a
    network folder."""
    folder = job.paths.folder
    with suppress(OSError):
        folder.chmod(folder.stat().st_mode)
    return bool(job.paths.result_pickle.exists())


def describe_lost_job(job: Any) -> ProcessRun:
    """Describe a lost job by the last line of its log, which names causes such as memory."""
    log = (job.stderr() or "").strip().splitlines()[-1:]
    last = f": {log[0]}" if log else ""
    return make_outcome_of_lost_job(
        LookupError(f"Slurm no longer knows job {job.job_id}, and it left no result{last}")
    )
