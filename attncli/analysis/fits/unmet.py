"""Requests that are not met, as verdicts: what is printed about them and the exit code are one decision."""

from collections.abc import Iterable

from attncli.records import Verdict


def build_unmet_verdicts(missed: Iterable[tuple[str, str]]) -> tuple[Verdict, ...]:
    """A failed verdict for each thing that misses, with by how much."""
    return tuple(Verdict(f"{what} meets the request", True, why) for what, why in missed)
