"""The safetensors files of a model folder, read one tensor at a time through a memory map.

numpy knows no bfloat16, so the file's header is read here: u16 bits, moved up by 16, are the float32 of the same value.
Pickled weights (.bin, .pt) are refused: reading them runs whatever code they hold.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError

Array = NDArray[np.float64]

ONE_FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt")
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
LARGEST_HEADER = 100_000_000
"""Bytes: the limit of the safetensors library itself."""


class Place(NamedTuple):
    """Where a tensor stands."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int


class Tensors:
    """All tensors of a folder by name; nothing but headers is read until one is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places: dict[str, Place] = {}
        for path in weight_files(folder):
            self.places |= header(path)

    def name(self, suffix: str) -> str | None:
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

    def read(self, name: str, part: tuple[slice, ...]) -> Array:
        place = self.places[name]
        if place.dtype not in DTYPES:
            raise InputError(
                f"{place.path}: tensor {name} holds {place.dtype}: only {', '.join(DTYPES)} can be read."
            )
        kind = np.dtype(DTYPES[place.dtype])
        raw = np.memmap(place.path, dtype=kind, mode="r", offset=place.offset, shape=place.shape)
        piece: NDArray[Any] = np.array(raw[part])
        if place.dtype == "BF16":
            piece = (piece.astype(np.uint32) << np.uint32(16)).view(np.float32)
        result: Array = piece.astype(np.float64)
        if not np.isfinite(result).all():
            raise InputError(f"{place.path}: tensor {name} holds a number that is not finite.")
        return result


def weight_files(folder: Path) -> list[Path]:
    """The one file, or the shards that the index names."""
    if (folder / ONE_FILE).is_file():
        return [folder / ONE_FILE]
    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX)
        shards = sorted(set(index.get("weight_map", {}).values()))
        missing = [name for name in shards if not (folder / name).is_file()]
        if missing or not shards:
            raise InputError(
                f"{folder} lacks {', '.join(missing) or 'all shards'}, which {INDEX} names."
            )
        return [folder / name for name in shards]
    pickles = [path.name for pattern in PICKLES for path in sorted(folder.glob(pattern))]
    if pickles:
        raise InputError(
            f"{folder} has its weights in {pickles[0]}, a pickle, which can run any code when read: "
            "save the model again with safe_serialization (model.safetensors)."
        )
    raise InputError(f"{folder} has neither {ONE_FILE} nor {INDEX}: give a saved model's folder.")


def header(path: Path) -> dict[str, Place]:
    """Names, types, shapes and offsets, checked against the size of the file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(LARGEST_HEADER, size - 8):
            raise InputError(
                f"{path} cannot be read as safetensors: it is cut off or something else."
            )
        text = file.read(length)
    try:
        described = json.loads(text)
        return {
            name: placed(path, entry, 8 + length, size)
            for name, entry in described.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read as safetensors: {error}.") from None


def placed(path: Path, entry: Mapping[str, Any], start: int, size: int) -> Place:
    first, last = entry["data_offsets"]
    shape = tuple(int(axis) for axis in entry["shape"])
    dtype = str(entry["dtype"])
    width = np.dtype(DTYPES[dtype]).itemsize if dtype in DTYPES else None
    if not 0 <= first <= last <= size - start:
        raise ValueError("a tensor lies outside the file")
    if width is not None and last - first != width * int(np.prod(shape, dtype=np.int64)):
        raise ValueError("a tensor's shape and size do not agree")
    return Place(path, dtype, shape, start + first)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON: {str(error).splitlines()[0]}.") from None
    if not isinstance(found, dict):
        raise InputError(f"{path} is no JSON object.")
    return found
