from collections.abc import Iterable
from pathlib import Path

from attncli.distributed_ranks import read_launch_environment
from attncli.errors import UsageError
from attncli.processes.command_in_subprocess import run_command_to_report_file
from attncli.processes.engines import Engine, EngineOptions, Outcomes, refuse_unknown_engine_options
from attncli.processes.job_sent_to_worker import Job


def torchrun(where: str, options: EngineOptions) -> Engine:
    """The processes that torchrun has started, every n-th item in each, and each item in a process of its own."""
    refuse_unknown_engine_options("torchrun", options, ())
    if where or not read_launch_environment().is_distributed:
        raise UsageError(
            "`engine='torchrun'` takes the processes that there are: torchrun --nproc-per-node N -m attncli sweep …"
        )
    return run_jobs_on_torchrun_rank


def run_jobs_on_torchrun_rank(jobs: Iterable[Job], total: int) -> Outcomes:
    """Run this process's jobs one after the other."""
    for job in jobs:
        yield job.place, run_command_to_report_file(job.words, Path(job.report))
