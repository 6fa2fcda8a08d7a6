"""What each command answers: source → observations → measures → Report. Nothing here prints."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, what): how far a long piece of work is."""


def no_progress(done: int, total: int, what: str) -> None:
    """For callers that do not watch."""
