"""Declare a question once, for keywords in Python and options on the command line: one declaration, one default.

    @question()
    def rank_collapse(*, source: str | None = SOURCE_ARGUMENT, run: RunOptions, how: RunContext) -> Report: …

The command line calls the function with its groups of options; `public_functions` makes the Python function of it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from attncli.gates import Condition
from attncli.progress import Progress, Say, ignore_message, ignore_progress

if TYPE_CHECKING:
    from attncli.analysis import Study
    from attncli.records import Report

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class RunContext:
    """Callbacks and output settings of a question."""

    progress: Progress = ignore_progress
    show_status: Say = ignore_message
    """Called with the current step, which the next one replaces."""
    say: Say = ignore_message
    """Called with announcements before long work."""
    conditions: tuple[Condition, ...] = ()
    """Gates: their metrics are measured, and impossible ones are refused before the work."""
    pictures: bool = False
    """Whether the report includes the data of map plots."""
    maps: bool = False
    """Whether it includes the map thumbnails of HTML pages."""
    output: Path | None = None
    """The report's path, so that no input is overwritten."""
    save_module: Path | None = None
    """Where a fitted module is written."""
    settings: Mapping[str, str] | None = None
    """Environment of runs started for the answer; None: that of this process."""

    def run_measurement(self, study: "Study") -> "Report":
        """Say that the measurement begins, and run it."""
        self.show_status("measuring")
        return study(progress=self.progress)


def question(own: Sequence[str] = (), any_module: bool = False) -> Callable[[Function], Function]:
    """Declare that a function with option groups is a question.

    `own`: further keywords that only Python has; `any_module`: an in-memory module need not come
    from transformers.
    """

    def declare_question(function: Function) -> Function:
        vars(function).update(own=tuple(own), any_module=any_module)
        return function

    return declare_question
