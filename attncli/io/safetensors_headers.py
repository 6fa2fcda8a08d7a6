"""The header of a safetensors file: names, types, shapes and offsets, checked against the file's size."""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from attncli.errors import InputError
from attncli.io.json_files import BROKEN_JSON
from attncli.records import Facts, JsonObject

LARGEST_HEADER = 100_000_000
"""Bytes: the limit of the safetensors library itself."""

LARGEST_TENSOR = 2**60
"""Numbers: an axis of 0 hides sizes that no library can hold."""

WIDTHS: Mapping[str, int] = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("BOOL", "I8", "U8"), 1),
}
"""Bytes per number; types that are missing here (8 bits and fewer) have no width to check."""


class TensorOffset(NamedTuple):
    """The position of a tensor in its file."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int
    """Bytes."""


class Header(NamedTuple):
    """The parsed header of a file."""

    places: dict[str, TensorOffset]
    metadata: dict[str, str]


def read_tensor_offsets(path: Path) -> dict[str, TensorOffset]:
    """Read the positions of all tensors of the file."""
    return read_header(path).places


def read_header(path: Path) -> Header:
    """Read tensors and metadata; together the tensors must fill the file from the header to its end, without hole or overlap."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(LARGEST_HEADER, size - 8):
                raise InputError(
                    f"{path} cannot be read as safetensors: it is cut off or something else."
                )
            text = file.read(length)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        # a byte-order mark, which safetensors' own reader refuses, or a list
        if not text.startswith(b"{"):
            raise ValueError("its header does not begin with {")
        described = json.loads(text, object_pairs_hook=refuse_duplicate_names)
        metadata = parse_metadata(described.pop("__metadata__", None))
        places = {
            name: parse_tensor_offset(path, entry, 8 + length, size)
            for name, entry in described.items()
        }
        refuse_unused_bytes_between_tensors(places.values(), 8 + length, size)
    except (*BROKEN_JSON, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} cannot be read as safetensors: {error}.") from None
    return Header(places, metadata)


def parse_metadata(metadata: object) -> dict[str, str]:
    """Parse the metadata, which map text to text."""
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(
        isinstance(value, str) for value in metadata.values()
    ):
        raise ValueError("its metadata are not text by text")
    return metadata


def refuse_duplicate_names(pairs: list[tuple[str, Any]]) -> JsonObject:
    """Refuse duplicate names in a JSON object: one of two tensors with the same name would vanish."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def parse_tensor_offset(path: Path, entry: Facts, start: int, size: int) -> TensorOffset:
    if not isinstance(entry, Mapping) or not {"data_offsets", "shape", "dtype"} <= entry.keys():
        raise ValueError("a tensor is not described in full")
    first, last = (parse_non_negative_integer(number) for number in entry["data_offsets"])
    shape = tuple(parse_non_negative_integer(axis) for axis in entry["shape"])
    dtype = str(entry["dtype"])
    if not first <= last <= size - start:
        raise ValueError("a tensor lies outside the file")
    if math.prod(axis for axis in shape if axis) > LARGEST_TENSOR:
        raise ValueError("a tensor's shape is beyond any memory")
    if dtype in WIDTHS and last - first != WIDTHS[dtype] * math.prod(shape):
        raise ValueError("a tensor's shape and size do not agree")
    return TensorOffset(path, dtype, shape, start + first, last - first)


def parse_non_negative_integer(number: object) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ValueError(f"{number!r} is no size")
    return number


def refuse_unused_bytes_between_tensors(
    places: Iterable[TensorOffset], start: int, size: int
) -> None:
    """Refuse holes between tensors: the format has none, and a corrupt offset leaves one."""
    for place in sorted(places, key=lambda place: (place.offset, place.size)):
        if place.offset != start:
            raise ValueError("its tensors overlap or leave holes")
        start += place.size
    if start != size:
        raise ValueError("it holds more than its header says")
