"""Verdicts for requests that are not met: they determine both the message and the exit code."""

from collections.abc import Iterable

from attncli.records import Verdict


def build_unmet_verdicts(missed: Iterable[tuple[str, str]]) -> tuple[Verdict, ...]:
    """A failed verdict for each thing that misses, with by how much."""
    return tuple(Verdict(f"{what} meets the request", True, why) for what, why in missed)
