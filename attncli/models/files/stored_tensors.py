"""The safetensors files of a model folder, read one tensor at a time through a memory map.

numpy knows no bfloat16, so the file's header is read here: u16 bits, moved up by 16, are the float32 of the same value.
Pickled weights (.bin, .pt) are refused: reading them runs whatever code they hold.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError
from attncli.models.files.hashing import stored, weight_sha256
from attncli.models.files.weight_files import read_headers, weight_files

Array = NDArray[np.float64]

DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class Tensors:
    """All tensors of a folder by name; nothing but headers is read until one is asked for."""

    def __init__(self, folder: Path, files: Sequence[Path] = ()) -> None:
        self.folder = folder
        self.files = files or weight_files(folder)
        self.places = read_headers(self.files)
        self.read_from: set[str] = set()
        """Names of the tensors of which some part was read."""
        self.name = cache(self.find)

    def find(self, suffix: str) -> str | None:
        """The one tensor called `suffix`, or so after a prefix such as `bert.`; None if there is none."""
        found = [name for name in self.places if name == suffix or name.endswith(f".{suffix}")]
        if len(found) > 1:
            raise InputError(
                f"{self.folder} has several tensors that could be meant: {', '.join(sorted(found)[:3])}."
            )
        return found[0] if found else None

    def shape(self, name: str) -> tuple[int, ...]:
        return self.places[name].shape

    def dtype(self, name: str) -> str:
        return self.places[name].dtype

    def rows(self, name: str, part: slice) -> Array:
        """Some rows (of a matrix) or entries (of a vector), exact in float64; nothing else is read."""
        return self.read(name, (part,))

    def columns(self, name: str, part: slice) -> Array:
        return self.read(name, (slice(None), part))

    def sha256(self) -> str:
        """Of the tensors that were read from, whole and as they are stored; one that is not finite is refused."""
        return weight_sha256(stored({name: self.places[name] for name in self.read_from}))

    def read(self, name: str, part: tuple[slice, ...]) -> Array:
        place = self.places[name]
        if place.dtype not in DTYPES:
            raise InputError(
                f"{place.path}: tensor {name} holds {place.dtype}: only {', '.join(DTYPES)} can be read."
            )
        self.read_from.add(name)
        kind = np.dtype(DTYPES[place.dtype])
        raw = np.memmap(place.path, dtype=kind, mode="r", offset=place.offset, shape=place.shape)
        piece: NDArray[Any] = np.array(raw[part])
        if place.dtype == "BF16":
            piece = (piece.astype(np.uint32) << np.uint32(16)).view(np.float32)
        result: Array = piece.astype(np.float64)
        if not np.isfinite(result).all():
            raise InputError(f"{place.path}: tensor {name} holds a number that is not finite.")
        return result
