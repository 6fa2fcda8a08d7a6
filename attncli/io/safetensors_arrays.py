"""The tensors of one safetensors file as numpy arrays.

They are read, never mapped into memory: if a file is cut off or replaced during the run, a read raises an error, where
access to a memory map ends the process by SIGBUS. numpy knows no bfloat16: its u16 bits, moved up by 16, are the
float32 of the same value.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError
from attncli.io.safetensors_headers import Header, TensorOffset, read_header

DTYPES = {
    **{"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "|u1"},
    **{"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1"},
    **{"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1"},
}
FLOATS = ("F64", "F32", "F16", "BF16")


class StoredArrays:
    """A file whose header was checked; numbers are read on access."""

    def __init__(self, path: Path, known: Header | None = None) -> None:
        """`known`: where the arrays are, in a file of another format."""
        self.path = path
        self.places, self.metadata = known or read_header(path)

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def names(self) -> list[str]:
        return sorted(self.places)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.places[name].shape

    def dtype(self, name: str) -> str:
        return self.places[name].dtype

    def read_tensor(self, name: str) -> NDArray[np.generic]:
        """The whole tensor in its dtype in the file; bfloat16 as float32."""
        place = self.require_readable(name)
        return self.read_number_ranges(name, [0], math.prod(place.shape)).reshape(place.shape)

    def read_block(
        self, name: str, start: int, stop: int, axis: int = 0, lead: tuple[int, ...] = ()
    ) -> NDArray[np.generic]:
        """Entries `start` to `stop` of an axis, and all of the others; `lead`: of the array at this index of its first axes."""
        whole = self.require_readable(name).shape
        shape = whole[len(lead) :]
        skipped = 0
        for place, size in zip(lead, whole, strict=False):
            skipped = skipped * size + place
        skipped *= math.prod(shape)
        inner = math.prod(shape[axis + 1 :])
        size = (stop - start) * inner
        outer = range(math.prod(shape[:axis]))
        firsts = [skipped + (each * shape[axis] + start) * inner for each in outer]
        found = self.read_number_ranges(name, firsts, size)
        return found.reshape((*shape[:axis], stop - start, *shape[axis + 1 :]))

    def require_readable(self, name: str) -> TensorOffset:
        place = self.places[name]
        if place.dtype not in DTYPES:
            raise InputError(
                f"{self.path}: tensor {name} holds {place.dtype}, which is not read: save it as F32 or F64."
            )
        return place

    def read_number_ranges(
        self, name: str, firsts: Sequence[int], count: int
    ) -> NDArray[np.generic]:
        """Read this many consecutive numbers of a tensor from each of these positions on."""
        place = self.places[name]
        kind = np.dtype(DTYPES[place.dtype])
        raw = np.empty((len(firsts), count), kind)
        offsets = [place.offset + first * kind.itemsize for first in firsts]
        read_byte_ranges(self.path, offsets, raw.view(np.uint8))
        if place.dtype == "BF16":
            return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return raw != 0 if place.dtype == "BOOL" else raw


def read_byte_ranges(path: Path, offsets: Sequence[int], rows: NDArray[np.uint8]) -> None:
    """Fill each row from its position in the file."""
    try:
        with path.open("rb", buffering=0) as file:
            for offset, row in zip(offsets, rows, strict=True):
                file.seek(offset)
                if fill_buffer_from_file(file, row.data) < row.size:
                    raise InputError(f"{path} was cut off while it was read: run again.")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def fill_buffer_from_file(file: Any, place: memoryview) -> int:
    """Read into a buffer, and return the number of bytes: one call gives at most 2 GiB."""
    found = 0
    while found < len(place):
        size = file.readinto(place[found:])
        if not size:
            break
        found += size
    return found
