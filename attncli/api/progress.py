"""A progress bar on stderr for work that takes longer than a second, on a terminal only."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from attncli.studies import Progress, no_progress

PATIENCE = 1.0
"""Seconds before a bar appears."""


@contextlib.contextmanager
def progress_bar(wanted: bool) -> Iterator[Progress]:
    """A callback for studies; it draws nothing unless the work is long and somebody watches."""
    if not (wanted and sys.stderr.isatty()):
        yield no_progress
        return
    bar = Bar()
    try:
        yield bar
    finally:
        bar.stop()


class Bar:
    """Created cheap; rich's bar is imported and shown when patience ends."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.display: Any = None

    def __call__(self, done: int, total: int, what: str) -> None:
        if self.display is None and time.monotonic() - self.began > PATIENCE:
            self.show(what)
        if self.display is not None:
            self.display.update(self.task, completed=done, total=total)

    def show(self, what: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), what, TimeRemainingColumn(), "left")
        self.display = Progress(*columns, console=Console(stderr=True), transient=True)
        self.task = self.display.add_task(what)
        self.display.start()

    def stop(self) -> None:
        if self.display is not None:
            self.display.stop()
