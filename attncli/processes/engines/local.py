import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from selectors import EVENT_READ, DefaultSelector
from typing import IO

from attncli.distributed_ranks import remove_rank_variables
from attncli.errors import UsageError
from attncli.processes.command_in_subprocess import ProcessRun, describe_process_exit
from attncli.processes.engines import Engine, EngineOptions, Outcomes, refuse_unknown_engine_options
from attncli.processes.job_sent_to_worker import Job
from attncli.resource_limits import MEMORY, free_memory, parse_whole_number

WORKER = "attncli.processes.engines._warm_worker"
PATIENCE = 5.0
"""Seconds that a worker may take to end before it is killed."""


def local(where: str, options: EngineOptions) -> Engine:
    """Warm workers on this machine, one item at a time each, as in local:4; without a number one."""
    refuse_unknown_engine_options("local", options, ())
    count = parse_whole_number(where or "1")
    if not count:
        raise UsageError(f"`engine={f'local:{where}'!r}`: write how many workers, as in local:4.")
    return partial(run_jobs_on_local_workers, count)


def run_jobs_on_local_workers(count: int, jobs: Iterable[Job], total: int) -> Outcomes:
    """Each job to the worker that is free first."""
    workers = LocalWorkerPool(min(count, total))
    try:
        yield from workers.yield_job_outcomes(iter(jobs))
    finally:
        workers.stop_all_workers()


class LocalWorker:
    """A process that does one job at a time."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", WORKER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self.place = -1

    @property
    def worker_stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def send_job_to_worker(self, job: Job) -> None:
        assert self.process.stdin is not None
        self.place = job.place
        with suppress(BrokenPipeError):  # it has died; its silence will say so
            print(json.dumps(job), file=self.process.stdin, flush=True)

    def read_job_outcome(self) -> ProcessRun:
        """The outcome of the job; a worker that closes its pipe has died."""
        line = self.worker_stdout.readline()
        return ProcessRun(*json.loads(line)) if line else describe_process_exit(self.process.wait())

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop_worker(self) -> None:
        """Stop the worker at once."""
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


class LocalWorkerPool:
    """Several workers; one that dies is replaced when the next job comes."""

    def __init__(self, count: int) -> None:
        self.environment = divide_cores_and_memory(count)
        self.count = count
        self.busy: list[LocalWorker] = []
        self.free: list[LocalWorker] = []
        self.selector = DefaultSelector()

    def yield_job_outcomes(self, jobs: Iterator[Job]) -> Outcomes:
        """Yield outcomes as they come, each before the next job starts, since the caller may stop
        the sweep."""
        self.start_jobs(jobs)
        while self.busy:
            for key, _ in self.selector.select():
                worker: LocalWorker = key.data
                place, found = worker.place, worker.read_job_outcome()
                self.return_worker_to_pool(worker)
                yield place, found
                self.start_jobs(jobs)

    def start_jobs(self, jobs: Iterator[Job]) -> None:
        while len(self.busy) < self.count:
            job = next(jobs, None)
            if job is None:
                return
            worker = self.free.pop() if self.free else LocalWorker(self.environment)
            self.busy.append(worker)
            self.selector.register(worker.worker_stdout, EVENT_READ, worker)
            worker.send_job_to_worker(job)

    def return_worker_to_pool(self, worker: LocalWorker) -> None:
        self.selector.unregister(worker.worker_stdout)
        self.busy.remove(worker)
        if worker.is_alive:
            self.free.append(worker)
        else:
            worker.stop_worker()

    def stop_all_workers(self) -> None:
        self.selector.close()
        for worker in (*self.busy, *self.free):
            worker.stop_worker()


def divide_cores_and_memory(count: int) -> dict[str, str]:
    """The environment of each worker: its part of the cores, and of the memory that is free now."""
    environment = remove_rank_variables(os.environ)
    if count > 1:
        threads = max(1, (os.cpu_count() or 1) // count)
        environment.setdefault("OMP_NUM_THREADS", str(threads))
        free = free_memory()
        if free is not None:
            environment[MEMORY] = str(free // count)
    return environment
