"""The safetensors files of a model folder, read one part of a tensor at a time.

Pickled weights (.bin, .pt) are refused: reading them runs whatever code they hold.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError
from attncli.io.file_change_detection import record_file_versions, refuse_changed_files
from attncli.io.safetensors_arrays import FLOATS, StoredArrays
from attncli.io.safetensors_headers import Header
from attncli.models.files.weight_files import (
    find_weight_files,
    iter_stored_weights,
    read_safetensors_headers,
)
from attncli.models.files.weight_hashing import hash_weights

Array = NDArray[np.float64]


class TensorReader:
    """Reads tensors of a folder by name; at first only headers are read."""

    def __init__(self, folder: Path, files: Sequence[Path] = ()) -> None:
        self.folder = folder
        self.files = files or find_weight_files(folder)
        self.before = record_file_versions(self.files)
        self.places = read_safetensors_headers(self.files)
        self.read_from: set[str] = set()
        """Names of the tensors that were read, wholly or in part."""
        self.name = cache(self.find_tensor_by_suffix)

    def find_tensor_by_suffix(self, suffix: str) -> str | None:
        """Find the one tensor called `suffix`, possibly after a prefix such as `bert.`; None if there is none."""
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

    def read_tensor_rows(self, name: str, part: slice) -> Array:
        """Read some rows (of a matrix) or entries (of a vector), exact in float64; nothing else is read."""
        return self.read_tensor_part(name, (part,))

    def read_tensor_columns(self, name: str, part: slice) -> Array:
        return self.read_tensor_part(name, (slice(None), part))

    def sha256(self) -> str:
        """Hash the tensors that were read from, whole and as stored; one that is not finite is refused."""
        found = hash_weights(
            iter_stored_weights({name: self.places[name] for name in self.read_from})
        )
        refuse_changed_files(self.before)
        return found

    def read_tensor_part(self, name: str, part: tuple[slice, ...]) -> Array:
        place = self.places[name]
        if place.dtype not in FLOATS:
            raise InputError(
                f"{place.path}: tensor {name} holds {place.dtype}: only {', '.join(FLOATS)} can be read."
            )
        self.read_from.add(name)
        axis = len(part) - 1
        start, stop, _ = part[axis].indices(place.shape[axis])
        piece = StoredArrays(place.path, Header({name: place}, {})).read_block(
            name, start, stop, axis
        )
        with np.errstate(invalid="ignore"):  # a signalling NaN: it is refused by name
            result: Array = piece.astype(np.float64)
        if not np.isfinite(result).all():
            raise InputError(f"{place.path}: tensor {name} holds a number that is not finite.")
        return result
