"""Patterns from files: .npy, .npz (dense or scipy sparse), .mtx, .csv, .safetensors."""

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from attncli.errors import AttnError, InputError, UsageError, format_count, shorten_error_text
from attncli.io.safetensors_arrays import StoredArrays
from attncli.patterns._array_files import parse_number, read_mtx, read_npy, read_npz
from attncli.patterns._check_pattern import (
    check_pattern_rows,
    check_pattern_shape,
    check_pattern_weights,
    make_pattern_from_dense,
    require_file_fits_memory,
)
from attncli.patterns._pattern_text_grammar import (
    FILE_SPEC,
    keep_strongest_weights,
    keep_weights_above_threshold,
    parse_top_key_count,
    parse_weight_threshold,
)


def read_pattern(text: str, length: int | None, causal: bool) -> csr_array:
    """Read the pattern in a file and check it; weights are unchanged."""
    spec = FILE_SPEC.fullmatch(text)
    assert spec is not None
    path = Path(spec["path"])
    head = None if spec["layer"] is None else (int(spec["layer"]), int(spec["head"]))
    if head and path.suffix != ".safetensors":
        raise UsageError(
            f"'{text}': only .safetensors files have heads, '{path.name}' has one pattern."
        )
    check_pattern_weights(path, raw := load_pattern_matrix(path, head))
    check_pattern_shape(path, raw.shape, length)
    pattern = (
        keep_strongest_weights(raw, parse_top_key_count(text, spec["top"])) if spec["top"] else raw
    )
    if spec["above"]:
        pattern = keep_weights_above_threshold(raw, parse_weight_threshold(text, spec["above"]))
    pattern.eliminate_zeros()
    check_pattern_rows(path, pattern, causal)
    return pattern


def load_pattern_matrix(path: Path, head: tuple[int, int] | None) -> csr_array:
    """Load the file's matrix; every failure becomes one sentence."""
    if not path.is_file():
        raise InputError(f"{path} does not exist or is not a file: check the path.")
    try:
        if path.suffix == ".safetensors":
            return read_safetensors(path, head)
        return READERS[path.suffix](path)
    except (AttnError, MemoryError):
        raise
    except Exception as error:  # numpy, scipy and safetensors raise a dozen different types here
        why = re.sub(r"<[^>]* at 0x[0-9a-f]+>", "…", shorten_error_text(error))
        raise InputError(f"{path} cannot be read as {path.suffix[1:]}: {why}.") from None


def read_csv(path: Path) -> csr_array:
    """Read rows of comma-separated numbers, no header; the first cell that is no number is named."""
    require_file_fits_memory(path, path.stat().st_size // 2)  # a digit and a comma
    rows: list[list[float]] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        rows.append(
            [
                parse_csv_cell(path, number, column, cell)
                for column, cell in enumerate(line.split(","), 1)
            ]
        )
        if len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{path} line {number} has {format_count(len(rows[-1]), 'cell')}, the first has {len(rows[0])}: "
                "a pattern is a square table."
            )
    return make_pattern_from_dense(path, np.array(rows, ndmin=2))


def parse_csv_cell(path: Path, line: int, column: int, cell: str) -> float:
    try:
        return parse_number(cell)
    except ValueError:
        raise InputError(
            f"{path} line {line}, column {column}: '{cell.strip()[:40]}' is not a number; "
            "a .csv pattern has numbers only, no header."
        ) from None


def read_safetensors(path: Path, head: tuple[int, int] | None) -> csr_array:
    """Read a head of saved maps, a target of a saved fit, or the only matrix of the file."""
    file = StoredArrays(path)
    names = file.names()
    if head is not None:
        name = f"layers.{head[0]}.attention"
        if name not in names or len(file.shape(name)) != 3 or head[1] >= file.shape(name)[0]:
            raise InputError(
                f"{path} has no head {head[0]}.{head[1]}: it holds {format_first_names_of_patterns(names)}."
            )
        twins = [
            other for other in names if re.fullmatch(rf"layers\.0+{head[0]}\.attention", other)
        ]
        if twins:
            raise InputError(
                f"{path}: {name} and {twins[0]} are both of layer {head[0]}: give each layer one tensor."
            )
        require_file_fits_memory(path, math.prod(file.shape(name)[1:]))
        return make_pattern_from_dense(path, file.read_block(name, head[1], head[1] + 1)[0])
    if len(names) != 1:
        raise InputError(
            f"{path} holds {format_count(len(names), 'tensor')} ({format_first_names_of_patterns(names)}): name a head of saved maps, "
            f"as in {path.name}:0.0."
        )
    require_file_fits_memory(path, math.prod(file.shape(names[0])))
    return make_pattern_from_dense(path, file.read_tensor(names[0]))


READERS: dict[str, Callable[[Path], csr_array]] = {
    ".npy": read_npy,
    ".npz": read_npz,
    ".mtx": read_mtx,
    ".csv": read_csv,
}


def format_first_names_of_patterns(names: list[str]) -> str:
    """Format the first few names."""
    return ", ".join(names[:4]) + (", …" if len(names) > 4 else "") if names else "nothing"
