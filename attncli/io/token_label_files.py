"""Read a text's tokens from a file: a JSON list, or one token per line."""

import json
from pathlib import Path

from attncli.errors import InputError, shorten_error_text
from attncli.io.json_files import BROKEN_JSON


def read_token_labels(path: Path) -> list[str]:
    """Read the labels in order; spaces at the ends of a line belong to its token."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise InputError(f"{path} is no text in UTF-8: save it as such.") from None
    if path.suffix.lower() != ".json":
        return text.split("\n")[: -1 if text.endswith("\n") else None]
    try:
        found = json.loads(text)
    except BROKEN_JSON as error:
        raise InputError(f"{path} cannot be read as JSON: {shorten_error_text(error)}.") from None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InputError(f'{path} is no JSON list of texts: write ["The", " dog", …].')
    return found
