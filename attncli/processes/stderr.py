"""Sentences for people, on stderr."""

import sys
from typing import TextIO

from attncli.sanitize import sanitize_sentence


def print_to_stderr(text: str, stream: TextIO | None = None) -> None:
    """Print one line on stderr; names and messages in it are untrusted."""
    print(f"attn: {sanitize_sentence(text)}", file=stream or sys.stderr, flush=True)
