"""One token of a text, named by its position or by its piece of text."""

import re
from collections.abc import Sequence

from attncli.errors import UsageError

POSITION = re.compile(r"-?\d{1,18}")

AROUND = re.compile(r"^(?:Ġ|▁|##| )|</w>$")
"""Markers that tokenizers put into a piece for the space before it, or for its absence."""

MOST_NAMED = 40
"""Of the tokens in a refusal."""


def resolve_token_position(token: str, labels: Sequence[str], tokens: int) -> int:
    """Resolve `7`, `-1` (from the end), or a piece of text that occurs at exactly one position."""
    if POSITION.fullmatch(token):
        position = int(token)
        if not -tokens <= position < tokens:
            raise UsageError(
                f"token {token} does not exist: the positions are 0 to {tokens - 1}, or -1 to -{tokens} from the end."
            )
        return position % tokens
    if len(labels) != tokens:
        raise UsageError(
            f"token '{token}': tokens have no names here, give a position from 0 to {tokens - 1}, or -1 for the last."
        )
    found = [
        place
        for place, label in enumerate(labels)
        if token in (label, remove_token_space_markers(label))
    ]
    if not found:
        raise UsageError(
            f"no token is '{token}': there are {format_positions_with_tokens(labels)}."
        )
    if len(found) > 1:
        places = ", ".join(map(str, found))
        raise UsageError(f"'{token}' occurs at several positions: name one of {places}.")
    return found[0]


def remove_token_space_markers(label: str) -> str:
    """The text of a token without its space markers."""
    return AROUND.sub("", label)


def format_positions_with_tokens(labels: Sequence[str]) -> str:
    named = [f"{place} {label}" for place, label in enumerate(labels[:MOST_NAMED])]
    more = len(labels) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
