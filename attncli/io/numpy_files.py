"""Read arrays in numpy's own files, .npy and .npz, by their declared sizes.

A declared size is checked before a number is read: an archive of a few megabytes may declare gigabytes of zeros.
"""

import math
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError
from attncli.io.in_memory_arrays import ALONE, InMemoryArrays
from attncli.io.safetensors_arrays import DTYPES, StoredArrays
from attncli.io.safetensors_headers import Header, TensorOffset
from attncli.resource_limits import require_memory

NPY, ARCHIVE = ".npy", b"PK\x03\x04"
CODES = {np.dtype(form): code for code, form in DTYPES.items() if code not in ("BF16", "BOOL")}
BROKEN = (
    ValueError,
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
)
"""What numpy and zipfile raise on a file that is not theirs, is truncated, or is locked with a password."""


class ArrayHeader(NamedTuple):
    """The header of a .npy file."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]

    @property
    def size_in_bytes(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_array_header(path: Path, stream: IO[bytes]) -> ArrayHeader:
    """Read the header of an array, before its numbers."""
    version = np.lib.format.read_magic(stream)
    readers: Mapping[tuple[int, int], Callable[..., Any]] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise InputError(f"{path} is of numpy's format {version}: save it again.")
    found = ArrayHeader(*readers[version](stream))
    if any(axis < 0 for axis in found.shape):
        raise InputError(f"{path} holds an array of shape {found.shape}.")
    return found


def is_numeric_array(claimed: ArrayHeader) -> bool:
    """Whether its values are single numbers, and not objects, records or texts."""
    dtype = claimed.dtype
    return not (dtype.hasobject or dtype.subdtype or dtype.names)


def read_exact_count_of_numbers(
    path: Path, stream: IO[bytes], dtype: np.dtype[Any], count: int
) -> NDArray[np.generic]:
    """Read this many numbers; further data of an archive are not unpacked."""
    size = count * dtype.itemsize
    raw = stream.read(size)
    if len(raw) < size:
        raise InputError(f"{path} is cut off: it holds fewer numbers than it says.")
    return np.frombuffer(raw, dtype) if size else np.zeros(count, dtype)


def read_array(path: Path, stream: IO[bytes], claimed: ArrayHeader) -> NDArray[np.generic]:
    """Read the whole array after its header."""
    flat = read_exact_count_of_numbers(path, stream, claimed.dtype, math.prod(claimed.shape))
    return flat.reshape(claimed.shape, order="F" if claimed.by_columns else "C")


def open_numpy_file(path: Path) -> StoredArrays | InMemoryArrays:
    """Open the real arrays of a file: of .npy read on access, of .npz in memory."""
    with translate_numpy_errors(path), path.open("rb") as stream:
        if stream.read(len(ARCHIVE)) == ARCHIVE:
            return InMemoryArrays(str(path), read_npz_archive(path), {})
        stream.seek(0)
        claimed = read_array_header(path, stream)
        require_real_numbers(path, claimed)
        code = CODES.get(claimed.dtype)
        if code is None or claimed.by_columns:
            require_memory(3 * claimed.size_in_bytes, str(path), "save fewer tokens or heads")
            return InMemoryArrays(str(path), {ALONE: read_array(path, stream, claimed)}, {})
        place = TensorOffset(path, code, claimed.shape, stream.tell(), claimed.size_in_bytes)
        return StoredArrays(path, Header({ALONE: place}, {}))


def read_npz_archive(path: Path) -> dict[str, NDArray[np.generic]]:
    """Read the arrays of an archive that are real numbers with two axes or more; others are no maps."""
    found, size = {}, 0
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as stream:
                claimed = read_array_header(path, stream)
                if len(claimed.shape) < 2 or not is_numeric_array(claimed):
                    continue
                require_real_numbers(path, claimed)
                size += 3 * claimed.size_in_bytes
                require_memory(size, f"{path}, unpacked,", "save fewer tokens or heads")
                found[name.removesuffix(NPY)] = read_array(path, stream, claimed)
    return found


def require_real_numbers(path: Path, claimed: ArrayHeader) -> None:
    if not is_numeric_array(claimed) or claimed.dtype.kind not in "fiub":
        of = "bfloat16 or raw" if claimed.dtype.kind == "V" else str(claimed.dtype)
        raise InputError(f"{path} holds {of} values, and real numbers are read: save float32.")


@contextmanager
def translate_numpy_errors(path: Path) -> Iterator[None]:
    """Translate numpy's errors into a sentence about the file."""
    try:
        yield
    except BROKEN as error:
        why = (
            getattr(error, "strerror", None) or str(error).splitlines()[:1] or type(error).__name__
        )
        reason = why if isinstance(why, str) else why[0]
        raise InputError(f"{path} cannot be read as numpy's: {reason}.") from None
