"""Read matrices in .npy, .npz and .mtx files, by their declared sizes.

Declared sizes are checked against what a pattern may be before a number is read. MatrixMarket is read here because
scipy's reader trusts the sizes of a corrupt file, and can crash the process.
"""

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, dia_array, vstack

from attncli.errors import InputError, format_count, list_first_names
from attncli.io.numpy_files import (
    ArrayHeader,
    is_numeric_array,
    read_array,
    read_array_header,
    read_exact_count_of_numbers,
)
from attncli.patterns._check_pattern import (
    make_pattern_from_dense,
    refuse_duplicate_entries,
    require_file_fits_memory,
)

PLACES = ("shape", "row", "col", "indices", "indptr", "offsets")
"""Arrays of a sparse matrix that locate its weights."""
FAR = 2**31
"""Larger than any index of a pattern."""
ROWS_AT_ONCE = 2**22
"""Numbers of a dense matrix that are checked at a time."""


def read_npy(path: Path) -> csr_array:
    with path.open("rb") as stream:
        return read_dense_as_sparse(path, stream)


def read_npz(path: Path) -> csr_array:
    """Read a scipy sparse matrix, or the only array of the archive."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if "format" in names:
            return read_scipy_sparse(path, archive, names)
        if len(names) != 1:
            raise InputError(
                f"{path} holds {format_count(len(names), 'array')}{f' ({list_first_names(names)})' if names else ''}: save one pattern alone."
            )
        with archive.open(archive.namelist()[0]) as stream:
            return read_dense_as_sparse(path, stream)


def read_pattern_array_header(path: Path, stream: IO[bytes]) -> ArrayHeader:
    """Read an array's header, and check that it may be a pattern."""
    found = read_array_header(path, stream)
    if not is_numeric_array(found):
        raise InputError(
            f"{path} cannot be read: it holds {found.dtype} values, and a pattern needs real numbers."
        )
    require_file_fits_memory(path, math.prod(found.shape))
    return found


def read_dense_as_sparse(path: Path, stream: IO[bytes]) -> csr_array:
    """Make a dense matrix sparse, some rows at a time."""
    header = read_pattern_array_header(path, stream)
    if len(header.shape) != 2 or header.by_columns or 0 in header.shape:
        return make_pattern_from_dense(path, read_array(path, stream, header))
    rows, columns = header.shape
    step = max(1, ROWS_AT_ONCE // columns)
    parts = []
    for start in range(0, rows, step):
        size = min(step, rows - start)
        block = read_exact_count_of_numbers(path, stream, header.dtype, size * columns).reshape(
            size, columns
        )
        parts.append(make_pattern_from_dense(path, block))
    return csr_array(vstack(parts))


def read_scipy_sparse(path: Path, archive: zipfile.ZipFile, names: list[str]) -> csr_array:
    """Read the format of `scipy.sparse.save_npz`; every index is checked before it is used."""
    members = zip(names, archive.namelist(), strict=True)
    arrays = {name: read_npz_array(path, archive, stored) for name, stored in members}
    kind = arrays["format"].item()
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    refuse_invalid_sparse_indices(path, arrays)
    rows, columns = (int(size) for size in arrays["shape"])
    shape = (rows, columns)
    require_file_fits_memory(path, max(shape))
    if "offsets" in arrays and (np.abs(arrays["offsets"].astype(float)) >= max(shape)).any():
        raise InputError(f"{path} has a diagonal that lies outside its {rows} × {columns} matrix.")
    if kind == "coo":
        return refuse_duplicate_entries(
            path, coo_array((arrays["data"], (arrays["row"], arrays["col"])), shape)
        )
    if kind == "dia":
        return refuse_duplicate_entries(path, dia_array((arrays["data"], arrays["offsets"]), shape))
    makers = {"csr": csr_array, "csc": csc_array, "bsr": bsr_array}
    if kind not in makers:
        raise InputError(
            f"{path} holds a sparse matrix of the format '{kind[:20]}': save it as csr."
        )
    made = makers[kind]((arrays["data"], arrays["indices"], arrays["indptr"]), shape)
    made.check_format(full_check=True)
    return refuse_duplicate_entries(path, coo_array(made))


def refuse_invalid_sparse_indices(path: Path, arrays: dict[str, NDArray[np.generic]]) -> None:
    """Refuse indices that are not whole numbers or out of range: a cast would cut them off or wrap around."""
    for name in (each for each in PLACES if each in arrays):
        if arrays[name].dtype.kind not in "iu":
            raise InputError(
                f"{path}: {name} holds {arrays[name].dtype} values, and places are whole numbers."
            )
        if (
            arrays[name].size
            and not -FAR < int(arrays[name].min()) <= int(arrays[name].max()) < FAR
        ):
            raise InputError(f"{path}: {name} holds a number that is no place of a matrix.")
    for name in ("shape", "data"):
        if name not in arrays:
            raise InputError(
                f"{path} has no '{name}', which scipy.sparse.save_npz writes: save it again."
            )
    if arrays["shape"].shape != (2,):
        raise InputError(
            f"{path}: its shape has {arrays['shape'].size} numbers: a pattern is [query, key]."
        )


def read_npz_array(path: Path, archive: zipfile.ZipFile, name: str) -> NDArray[np.generic]:
    with archive.open(name) as stream:
        return read_array(path, stream, read_pattern_array_header(path, stream))


def read_mtx(path: Path) -> csr_array:
    """MatrixMarket: `%%MatrixMarket matrix coordinate|array real|integer|pattern general|symmetric|skew-symmetric`."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    words = (lines[0] if lines else "").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise InputError(f"{path} cannot be read as mtx: its first line is no MatrixMarket header.")
    layout, field, symmetry = words[2:]
    known = layout in ("coordinate", "array"), field in FIELDS, symmetry in SYMMETRIES
    if not all(known) or (layout, field) == ("array", "pattern"):
        raise InputError(
            f"{path} holds a {' '.join(words[2:])[:60]} matrix, which is not read: save real numbers."
        )
    content = [line for line in lines[1:] if line.strip() and not line.startswith("%")]
    sizes = parse_mtx_sizes(path, content, 3 if layout == "coordinate" else 2)
    if symmetry != "general" and sizes[0] != sizes[1]:
        raise InputError(f"{path} is {sizes[0]} × {sizes[1]} and cannot be {symmetry}.")
    if layout == "coordinate":
        entries = parse_mtx_coordinates(path, content[1:], sizes, with_values=field != "pattern")
    else:
        entries = parse_mtx_column_values(path, content[1:], sizes[:2], symmetry)
    return refuse_duplicate_entries(path, mirror_symmetric_entries(entries, sizes[:2], symmetry))


def parse_number(word: str) -> float:
    """Parse a number as files write it; Python itself also reads 1_0 and other scripts' digits."""
    if "_" in word or not word.isascii():
        raise ValueError(f"'{word[:20]}' is no number")
    return float(word)


FIELDS = ("real", "double", "integer", "unsigned-integer", "pattern")
SYMMETRIES = ("general", "symmetric", "skew-symmetric")

Places = NDArray[np.int64]
Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def parse_mtx_sizes(path: Path, content: list[str], count: int) -> tuple[int, ...]:
    words = content[0].split() if content else []
    if len(words) != count or not all(word.isascii() and word.isdecimal() for word in words):
        raise InputError(
            f"{path} cannot be read as mtx: its line of sizes needs {format_count(count, 'number')}."
        )
    if any(len(word) > 12 for word in words):
        raise InputError(f"{path} cannot be read as mtx: its sizes are beyond any memory.")
    sizes = tuple(map(int, words))
    require_file_fits_memory(path, sizes[2] if count == 3 else sizes[0] * sizes[1])
    require_file_fits_memory(path, max(sizes[:2]))
    return sizes


def parse_mtx_coordinates(
    path: Path, lines: list[str], sizes: tuple[int, ...], with_values: bool
) -> Entries:
    """Parse one line per entry: row, column (from 1), and value."""
    rows, columns, count = sizes
    table = [line.split() for line in lines]
    expected = 3 if with_values else 2
    if len(table) != count or any(len(words) != expected for words in table):
        raise InputError(
            f"{path} cannot be read as mtx: it says {format_count(count, 'entry', 'entries')} of {expected} numbers and holds others."
        )
    places = np.array([(int(words[0]), int(words[1])) for words in table], np.int64).reshape(-1, 2)
    if count and (places.min() < 1 or places[:, 0].max() > rows or places[:, 1].max() > columns):
        raise InputError(f"{path} cannot be read as mtx: an entry lies outside the matrix.")
    values = [parse_number(words[2]) for words in table] if with_values else [1.0] * count
    return places[:, 0] - 1, places[:, 1] - 1, np.array(values)


def parse_mtx_column_values(
    path: Path, lines: list[str], sizes: tuple[int, ...], symmetry: str
) -> Entries:
    """Parse values column by column; of a symmetric matrix those on and below the diagonal, of a skew one below."""
    count, expected = (
        sum(len(line.split()) for line in lines),
        count_numbers_in_mtx_file(sizes[0], sizes[1], symmetry),
    )
    if count != expected:  # checked before memory is taken for the declared sizes
        raise InputError(
            f"{path} cannot be read as mtx: it holds {format_count(count, 'number')} and should {expected}."
        )
    words = (word for line in lines for word in line.split())
    values = np.fromiter(map(parse_number, words), np.float64, count)
    at = np.flatnonzero(values)
    rows, columns = convert_mtx_positions_to_row_column(at, sizes[0], symmetry)
    return rows, columns, values[at]


def count_numbers_in_mtx_file(rows: int, columns: int, symmetry: str) -> int:
    """How many numbers a file of this size and symmetry has."""
    of_triangle = {"symmetric": rows * (rows + 1) // 2, "skew-symmetric": rows * (rows - 1) // 2}
    return of_triangle.get(symmetry, rows * columns)


def convert_mtx_positions_to_row_column(
    at: Places, rows: int, symmetry: str
) -> tuple[Places, Places]:
    """Row and column of the numbers at these positions of the file."""
    if symmetry == "general":
        return at % rows, at // rows
    first = 0 if symmetry == "symmetric" else 1
    starts = np.cumsum([0, *range(rows - first, 0, -1)])
    columns = np.searchsorted(starts, at, side="right") - 1
    return at - starts[columns] + columns + first, columns


def mirror_symmetric_entries(entries: Entries, shape: tuple[int, ...], symmetry: str) -> coo_array:
    rows, columns, values = entries
    if symmetry != "general":
        off = rows != columns
        sign = -1.0 if symmetry == "skew-symmetric" else 1.0
        both = np.concatenate([rows, columns[off]]), np.concatenate([columns, rows[off]])
        return coo_array((np.concatenate([values, sign * values[off]]), both), shape)
    return coo_array((values, (rows, columns)), shape)
