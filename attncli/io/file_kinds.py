"""What one file is, seen in its first bytes and, of safetensors, in the header: never guessed from who asks."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attncli.errors import InputError
from attncli.io.headers import read_header

FileKind = Literal["network", "maps", "fit", "pattern", "weights", "report", "pickle", "other"]

FORMATS: Mapping[str, FileKind] = {
    "attn-network": "network",
    "attn-maps": "maps",
    "attn-fit": "fit",
}
"""What the metadata of our own safetensors files say under `format`."""
MAP_NAME = re.compile(r"(?:.+\.)?layers\.[0-9]+\.(?:\w+_)?attention")
"""Maps of other programs say nothing; their tensors are called so."""
ARRAY, ARCHIVE, PICKLE = b"\x93NUMPY", b"PK\x03\x04", b"\x80"
MATRIX = b"%%MatrixMarket"
REPORT = re.compile(rb'\s*\{\s*"schema_version"')
"""As `attn` writes it: the version comes first."""
BEGINNING = 256


def detect_kind(path: Path) -> FileKind:
    """The kind of a file that is there; only what calls itself .safetensors and cannot be read is refused here."""
    try:
        with path.open("rb") as file:
            start = file.read(BEGINNING)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path} cannot be read: {why.lower()}.") from None
    if path.suffix.lower() == ".safetensors" or start[8:9] == b"{":
        return safetensors_kind(path)
    if start.startswith((ARRAY, MATRIX)) or path.suffix.lower() in (".npy", ".npz", ".mtx", ".csv"):
        return "pattern"
    if start.startswith((ARCHIVE, PICKLE)):
        return "pickle"
    return "report" if REPORT.match(start) or path.suffix.lower() == ".json" else "other"


def safetensors_kind(path: Path) -> FileKind:
    """By the format that the metadata name, else by the names of the tensors."""
    found = read_header(path)
    form = found.metadata.get("format", "")
    if form in FORMATS:
        return FORMATS[form]
    return "maps" if any(map(MAP_NAME.fullmatch, found.places)) else "weights"
