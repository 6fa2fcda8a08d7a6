"""A worker of the engine `local`: a job on each line of stdin, how it has ended on a line of stdout.

It ends when its stdin does, so that one whose driver is killed finishes its item and goes.
"""

import json
import os
import signal
import sys

from attncli.processes.jobs import Job, run_job


def serve_jobs() -> None:
    """Whatever writes to stdout meanwhile does not reach the driver, and Ctrl-C is the driver's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        for line in sys.stdin:
            print(run_job_line(line), file=answers, flush=True)


def run_job_line(line: str) -> str:
    """How the job that the line holds has ended."""
    place, words, *rest = json.loads(line)
    return json.dumps(run_job(Job(place, tuple(words), *rest)))


if __name__ == "__main__":
    serve_jobs()
