"""A worker of the engine `local`: a job on each line of stdin, how it has ended on a line of stdout.

It ends when its stdin does, so that one whose driver is killed finishes its item and goes.
"""

import json
import os
import signal
import sys

from attncli.processes.jobs import Job, made


def serve() -> None:
    """Whatever writes to stdout meanwhile does not reach the driver, and Ctrl-C is the driver's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers, open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        for line in sys.stdin:
            place, words, *rest = json.loads(line)
            run = made(Job(place, tuple(words), *rest))
            print(json.dumps(run), file=answers, flush=True)


if __name__ == "__main__":
    serve()
