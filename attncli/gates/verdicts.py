"""Turn verdicts into the exit code."""

from collections.abc import Iterable

from attncli.errors import FAILED_GATE
from attncli.records import Report


def exit_code(report: Report) -> int:
    """The exit code, by the same decision as the printed verdicts."""
    return FAILED_GATE if any(verdict.failed for verdict in report.verdicts) else 0


def worst_exit_code(codes: Iterable[int]) -> int:
    """One code for several runs: an error that stopped a run outweighs a failed gate."""
    return max(codes, key=lambda code: (code not in (0, FAILED_GATE), code), default=0)
