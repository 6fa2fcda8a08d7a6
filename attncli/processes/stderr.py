"""Sentences for people, on stderr."""

import sys
from typing import TextIO

from attncli.sanitize import sanitize_sentence


def say(text: str, stream: TextIO | None = None) -> None:
    """One line; names and messages in it may come from anywhere."""
    print(f"attn: {sanitize_sentence(text)}", file=stream or sys.stderr, flush=True)
