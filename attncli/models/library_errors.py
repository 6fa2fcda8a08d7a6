"""Translate whatever libraries raise on unchecked data into a sentence about the folder."""

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from attncli.errors import LONGEST_REASON, AttnError, InputError, shorten_error_text

T = TypeVar("T")

EXTRAS = {"timm": "vision"}
"""Libraries that model classes need, and the extra of this package that installs them."""


def translate_library_errors(folder: Path | str, what: str, action: Callable[[], T]) -> T:
    """Run library code on unchecked data; whatever it raises becomes an error about the folder or other `source`."""
    try:
        return action()
    except (AttnError, MemoryError, KeyboardInterrupt):
        raise
    except ImportError as error:
        needed = find_missing_library_name(error)
        how = f"pip install 'attncli[{EXTRAS[needed]}]'" if needed in EXTRAS else "install it"
        raise InputError(
            f"{folder}: its code needs {needed}, which is not installed: {how}."
        ) from error
    except ZeroDivisionError as error:
        raise InputError(f"{folder}: {what}: {describe_division_by_config_size(error)}.") from error
    except BaseException as error:  # a panic of the tokenizer library (pyo3) is no Exception
        raise InputError(
            f"{folder}: {what} ({type(error).__name__}: {shorten_error_text(error)})."
        ) from error


def find_missing_library_name(error: ImportError) -> str:
    """The library's name in transformers' message about a missing library."""
    words = str(error).split()
    return words[words.index("the") + 1] if "the" in words[:-1] else str(error.name or error)


def describe_division_by_config_size(error: ZeroDivisionError) -> str:
    """Name the sizes of a config that a model's code divided by: Python only reports the division by zero."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    line = (place.line or "").partition("#")[0].strip()
    return f"{Path(place.filename).name} divides by zero at its sizes ({line[:LONGEST_REASON]})"
