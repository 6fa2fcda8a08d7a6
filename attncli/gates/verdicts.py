"""From verdicts to the exit code."""

from collections.abc import Iterable

from attncli.errors import FAILED_GATE
from attncli.records import Report


def exit_code(report: Report) -> int:
    """The verdicts printed and this code are the same decision."""
    return FAILED_GATE if any(verdict.failed for verdict in report.verdicts) else 0


def worst_exit_code(codes: Iterable[int]) -> int:
    """One code for several runs: what stopped a run is worse than a gate that it failed, for nothing was shown there."""
    return max(codes, key=lambda code: (code not in (0, FAILED_GATE), code), default=0)
