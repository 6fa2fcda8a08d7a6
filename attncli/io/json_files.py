"""JSON files of a model folder."""

import json
from pathlib import Path

from attncli.errors import InputError, shorten_error_text
from attncli.records import JsonObject

BROKEN_JSON = (ValueError, RecursionError)
"""What the parser raises: ValueError also for undecodable bytes, RecursionError for deeply nested brackets."""


def read_json(path: Path) -> JsonObject:
    """Read a JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, *BROKEN_JSON) as error:
        raise InputError(f"{path} cannot be read as JSON: {shorten_error_text(error)}.") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is no JSON object.")
    return found
