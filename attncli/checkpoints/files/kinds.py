"""What one file is, seen in its first bytes and, of safetensors, in the header: never guessed from who asks."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from attncli.checkpoints.files.json_files import BROKEN_JSON
from attncli.errors import InputError

FileKind = Literal["network", "maps", "fit", "pattern", "weights", "report", "pickle", "other"]

FORMATS: Mapping[str, FileKind] = {
    "attn-network": "network",
    "attn-maps": "maps",
    "attn-fit": "fit",
}
"""What the metadata of our own safetensors files say under `format`."""
MAP_NAME = re.compile(r"(?:.+\.)?layers\.[0-9]+\.(?:cross_)?attention")
"""Maps of other programs say nothing; their tensors are called so."""
LARGEST_HEADER = 100_000_000
"""Bytes: the limit of the safetensors library itself."""
ARRAY, ARCHIVE, PICKLE = b"\x93NUMPY", b"PK\x03\x04", b"\x80"
MATRIX = b"%%MatrixMarket"
REPORT = re.compile(rb'\s*\{\s*"schema_version"')
"""As `attn` writes it: the version comes first."""
BEGINNING = 256


def kind_of(path: Path) -> FileKind:
    """The kind of a file that is there; only what calls itself .safetensors and cannot be read is refused here."""
    try:
        with path.open("rb") as file:
            start = file.read(BEGINNING)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path} cannot be read: {why.lower()}.") from None
    if path.suffix.lower() == ".safetensors" or start[8:9] == b"{":
        return of_safetensors(path)
    if start.startswith((ARRAY, MATRIX)) or path.suffix.lower() in (".npy", ".npz", ".mtx", ".csv"):
        return "pattern"
    if start.startswith((ARCHIVE, PICKLE)):
        return "pickle"
    return "report" if REPORT.match(start) or path.suffix.lower() == ".json" else "other"


def of_safetensors(path: Path) -> FileKind:
    """By the format that the metadata name, else by the names of the tensors."""
    described = safetensors_header(path)
    said = described.pop("__metadata__", None)
    form = said.get("format") if isinstance(said, dict) else None
    if isinstance(form, str) and form in FORMATS:
        return FORMATS[form]
    return "maps" if any(map(MAP_NAME.fullmatch, described)) else "weights"


def safetensors_header(path: Path) -> dict[str, Any]:
    """The header as it stands there; whether its tensors lie in the file is for the one who reads them to say."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(LARGEST_HEADER, size - 8):
                raise InputError(
                    f"{path} cannot be read as safetensors: it is cut off or something else."
                )
            found = json.loads(file.read(length))
    except (OSError, *BROKEN_JSON) as error:
        why = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read as safetensors: {why}.") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} cannot be read as safetensors: its header is no JSON object.")
    return found
