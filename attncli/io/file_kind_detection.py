"""Detect a file's kind from its first bytes and, for safetensors, its header."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attncli.errors import InputError

FileKind = Literal["network", "maps", "fit", "pattern", "weights", "report", "pickle", "other"]

FORMATS: Mapping[str, FileKind] = {
    "attn-network": "network",
    "attn-maps": "maps",
    "attn-fit": "fit",
}
"""Kinds by the `format` in the metadata of our own safetensors files."""
MAP_NAME = re.compile(r"(?:.+\.)?layers\.[0-9]+\.(?:\w+_)?attention")
"""Names of tensors in files of maps by other programs, which have no such metadata."""
ARRAY, ARCHIVE, PICKLE = b"\x93NUMPY", b"PK\x03\x04", b"\x80"
MATRIX = b"%%MatrixMarket"
REPORT = re.compile(rb'\s*\{\s*"schema_version"')
"""The beginning of a report as `attn` writes it: the version comes first."""
BEGINNING = 256


def detect_file_kind(path: Path) -> FileKind:
    """Detect the kind of an existing file; only an unreadable .safetensors file is refused here."""
    try:
        with path.open("rb") as file:
            start = file.read(BEGINNING)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path} cannot be read: {why.lower()}.") from None
    if path.suffix.lower() == ".safetensors" or start[8:9] == b"{":
        return detect_safetensors_kind(path)
    if start.startswith((ARRAY, MATRIX)) or path.suffix.lower() in (".npy", ".npz", ".mtx", ".csv"):
        return "pattern"
    if start.startswith((ARCHIVE, PICKLE)):
        return "pickle"
    return "report" if REPORT.match(start) or path.suffix.lower() == ".json" else "other"


def detect_safetensors_kind(path: Path) -> FileKind:
    """The kind by the metadata's format, else by the tensors' names."""
    from attncli.io.safetensors_headers import read_header

    found = read_header(path)
    form = found.metadata.get("format", "")
    if form in FORMATS:
        return FORMATS[form]
    return "maps" if any(map(MAP_NAME.fullmatch, found.places)) else "weights"
