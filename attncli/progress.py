"""Callbacks by which long work says how far it is and what it does, and those that ignore it."""

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, what) during a long computation."""

Say = Callable[[str], None]
"""Called with a sentence for a person."""


def ignore_progress(done: int, total: int, what: str) -> None:
    """Ignore progress."""


def ignore_sentence(sentence: str) -> None:
    """Ignore the sentence."""
