"""A worker of the engine `local`: a job on each line of stdin, its outcome on a line of stdout.

It exits when its stdin closes, so that a worker whose driver was killed finishes its item first.
"""

import json
import os
import signal
import sys

from attncli.processes.job_sent_to_worker import Job, run_job


def run_jobs_from_stdin() -> None:
    """Serve jobs. Other output to stdout does not reach the driver, and Ctrl-C is left to the
    driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        for line in sys.stdin:
            print(run_job_line(line), file=answers, flush=True)


def run_job_line(line: str) -> str:
    """Run the job on the line and return its outcome."""
    place, words, *rest = json.loads(line)
    return json.dumps(run_job(Job(place, tuple(words), *rest)))


if __name__ == "__main__":
    run_jobs_from_stdin()
