"""How far long work is: callbacks that say so, and what shows it on a terminal.

A line with the current step comes first, then a bar once there are numbers. All of it goes to
stderr and is erased at the end. It is shown on a terminal only, or where Python has
`progress=True`, as in a notebook, which has no terminal and shows one line, rewritten in place.
"""

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from attncli.distributed_ranks import is_first_rank
from attncli.sanitize import escape_invisible_characters

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, what) during a long computation."""

Say = Callable[[str], None]
"""Called with a sentence for a person."""

PATIENCE = 1.0
"""Seconds before a bar appears."""
PAUSE = 0.2
"""Seconds between two lines where each is written over the one before."""
DUMB = ("dumb", "unknown")
"""Terminals that cannot erase output."""
NARROWEST, USUAL = 20, 80
"""Columns."""


def ignore_progress(done: int, total: int, what: str) -> None:
    """Ignore progress."""


def make_progress_counter(progress: Progress, total: int, what: str) -> Callable[..., None]:
    """Return a callback that is called after each step, or with the number of steps done, and reports their sum."""
    done = 0

    def count_finished_steps(steps: int = 1) -> None:
        nonlocal done
        done += steps
        progress(done, total, what)

    return count_finished_steps


def ignore_message(sentence: str) -> None:
    """Ignore the sentence."""


@contextlib.contextmanager
def progress_bar(requested: bool) -> Iterator[Progress]:
    """Yield a progress callback for studies; it draws nothing unless stderr is a terminal."""
    if not (requested and sys.stderr.isatty() and is_first_rank()):
        yield ignore_progress
        return
    bar = ProgressBar()
    try:
        yield bar
    finally:
        bar.stop_bar_display()


@contextlib.contextmanager
def show_progress() -> Iterator[Progress]:
    """Yield a progress callback for callers who have requested it, wherever stderr goes."""
    if sys.stderr is None or sys.stderr.isatty() or not is_first_rank():
        with progress_bar(sys.stderr is not None) as progress:
            yield progress
        return
    line = PlainProgress()
    try:
        yield line
    finally:
        line.show_status("")


class PlainProgress:
    """Progress as one line of text, rewritten in place, for notebooks and log files."""

    def __init__(self) -> None:
        self.line = ""
        self.written_at = -math.inf

    def show_status(self, what: str) -> None:
        """Replace the text; an empty one erases it."""
        line = f"{escape_invisible_characters(what)} …"[: USUAL - 1] if what else ""
        blank = " " * len(self.line)
        print(f"\r{blank}\r{line}" if self.line else line, end="", file=sys.stderr, flush=True)
        self.line = line

    def __call__(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if now - self.written_at >= PAUSE:
            self.written_at = now
            self.show_status(
                f"{done}{what}" if what.startswith("%") else f"{done:,} of {total:,} {what}"
            )


def make_status_callback(progress: Progress) -> Say:
    """Return a callback for the current step before there are numbers; callbacks other than the bar
    ignore it."""
    return (
        progress.show_status
        if isinstance(progress, ProgressBar | PlainProgress)
        else ignore_message
    )


class ProgressBar:
    """Created cheap: a line of words until patience ends, then rich's bar, which is imported for it."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.display: Any = None
        self.line = ""
        """The text on the terminal now."""

    def show_status(self, what: str) -> None:
        """Replace the text; an empty one erases it."""
        self.erase_progress_line()
        if what and self.display is None and os.environ.get("TERM") not in DUMB:
            self.line = truncate_to_terminal_width(f"{escape_invisible_characters(what)} …")
            print(self.line, end="", file=sys.stderr, flush=True)

    def erase_progress_line(self) -> None:
        """Erase the text, so that another line can be printed."""
        if self.line:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
            self.line = ""

    def __call__(self, done: int, total: int, what: str) -> None:
        if self.display is None and time.monotonic() - self.began > PATIENCE:
            self.erase_progress_line()
            self.start_bar_display(what)
        if self.display is not None:
            self.display.update(self.task, completed=done, total=total)

    def start_bar_display(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), what, TimeRemainingColumn(), "left")
        self.display = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.display.add_task(what)
        self.display.start()

    def stop_bar_display(self) -> None:
        self.erase_progress_line()
        if self.display is not None:
            self.display.stop()


def truncate_to_terminal_width(text: str) -> str:
    """Cut the text to one line of the terminal: a longer one could not be erased."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or USUAL
    except (OSError, ValueError):
        columns = USUAL
    return text[: max(NARROWEST, columns) - 1]
