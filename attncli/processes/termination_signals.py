"""Report a termination from outside: torchrun ends all processes once it has lost one, and prints
only a traceback of its own."""

import os
import signal
import socket
import sys
import threading

from attncli.distributed_ranks import is_started_by_attn, read_launch_environment
from attncli.errors import LimitError
from attncli.processes.rank_communication import LINE, exit_process
from attncli.progress import Say

ENDED = (
    "this run was ended before it was done, as torchrun does once one of its processes is lost (killed, or out of "
    "memory?): nothing is reported; run the same command again."
)


def print_message_on_termination(say: Say) -> None:
    """Print a sentence on SIGTERM from now on, at once, even while the main thread waits in torch.

    Python's handlers run in the main thread only; another thread can read the wake-up descriptor.
    """
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=wait_for_signal, args=(read, say), daemon=True).start()


def wait_for_signal(read: int, say: Say) -> None:
    while signal.SIGTERM not in os.read(read, 1):
        pass
    if LINE.over:  # this process knows already, and is about to end by itself
        return
    if is_first_process_alive():
        say(ENDED)
    exit_process(LimitError.exit_code)


def is_first_process_alive() -> bool:
    """Whether this is the first of the remaining processes; those on other machines are assumed to
    exist.

    Where attn has started the processes, attn reports instead.
    """
    if is_started_by_attn():
        return False
    here, before = socket.gethostname(), LINE.processes[: read_launch_environment().rank]
    if not LINE.processes:
        return read_launch_environment().is_rank_zero
    return not any(host != here or is_process_alive(process) for host, process in before)


def is_process_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return False
    return True


def print_signal_message(sentence: str) -> None:
    """Print the sentence to stderr, also where this process is silenced."""
    print(f"attn: {sentence}", file=sys.__stderr__, flush=True)
