"""Broken pattern files of every ending; a target that is kept must be the file's own, row by row."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz.forks import Case
from fuzz.material import Material
from fuzz.mutations import WEIRD, spoilt_bytes, spoilt_safetensors, spoilt_text
from fuzz.tensors import arrays
from numpy.typing import NDArray
from safetensors.numpy import save
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, dia_array, save_npz

KEEPS = (
    "",
    "",
    "",
    ":top=1",
    ":top=2",
    ":above=0.2",
    ":top=0",
    ":top=" + "9" * 4400,
    ":above=nan",
    ":0.0",
    ":above=1e999",
    ":top=x",
    ":9.9",
)


def pattern(rng: Random, material: Material, folder: Path) -> Case:
    ending = rng.choice(("npy", "npz", "mtx", "mtx", "csv", "safetensors"))
    path = folder / f"p.{ending}"
    matrix = some_matrix(rng)
    content = WRITERS[ending](rng, matrix)
    path.write_bytes(content)
    keep = rng.choice(KEEPS)
    words = ["approximate", "--pattern", path.name + keep, "-o", "fit.safetensors"]  # fmt: skip
    return Case(words, None if keep else wrong_target, output="fit.safetensors")


def some_matrix(rng: Random) -> NDArray[np.float64]:
    """Rows with some keys; now and then a number that is odd."""
    size = rng.randrange(1, 6)
    draws = np.random.default_rng(rng.randrange(2**32))
    matrix = draws.random((size, size)) * (draws.random((size, size)) < 0.6) + np.eye(size)
    if rng.random() < 0.4:
        matrix[rng.randrange(size), rng.randrange(size)] = rng.choice(WEIRD)
    return matrix


def often(rng: Random, content: bytes) -> bytes:
    """Broken in most cases."""
    return spoilt_bytes(rng, content) if rng.random() < 0.6 else content


def as_npy(rng: Random, matrix: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    kinds = (
        "float64",
        "float32",
        "int64",
        "bool",
        "complex128",
        "U3",
        "O",
        "datetime64[s]",
        "V4",
        "f2",
    )
    kind = rng.choice(kinds) if rng.random() < 0.4 else "float64"
    shape = rng.choice(("", "", "F", "flat", "deep"))
    with np.errstate(all="ignore"):
        try:
            array = matrix.astype(kind)
        except (ValueError, TypeError):
            array = matrix
    array = {"F": np.asfortranarray(array), "flat": array.ravel(), "deep": array[None]}.get(
        shape, array
    )
    np.lib.format.write_array(stream, array, allow_pickle=True)
    content = stream.getvalue()
    if rng.random() < 0.15:  # claims more than there is
        huge = rng.choice(
            (b"(100000000, 100000000)", b"(-1, 4)", b"(9, 9)", b"(99999999999999999999, 1)")
        )
        start, end = content.index(b"("), content.index(b")") + 1
        content = content[:start] + huge + content[end:]
    return often(rng, content)


def as_npz(rng: Random, matrix: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    if rng.random() < 0.3:
        np.savez_compressed(stream, matrix)
        return often(rng, stream.getvalue())
    kinds: tuple[Callable[..., Any], ...] = (csr_array, csc_array, coo_array, bsr_array, dia_array)
    save_npz(stream, rng.choice(kinds)(np.nan_to_num(matrix)))
    if rng.random() < 0.3:
        return often(rng, stream.getvalue())
    with np.load(io.BytesIO(stream.getvalue())) as held:
        parts = {name: held[name] for name in held.files}
    name = rng.choice(sorted(parts))
    if parts[name].dtype.kind in "if" and parts[name].size:
        changed = parts[name].copy()
        changed.flat[rng.randrange(changed.size)] = rng.choice((-1, 99, 2**31 - 1, 0, -(2**31)))
        parts[name] = rng.choice(
            (changed, changed, changed[:-1], changed.astype("float32"), changed[None])
        )
    else:
        parts[name] = np.array(rng.choice((b"csr", b"xyz", b"", "coo", 3)))
    stream = io.BytesIO()
    np.savez(stream, **parts)
    return stream.getvalue()


def as_mtx(rng: Random, matrix: NDArray[Any]) -> bytes:
    size = len(matrix)
    entries = [
        (i + 1, j + 1, matrix[i, j]) for i in range(size) for j in range(size) if matrix[i, j]
    ]
    layout = rng.choice(("coordinate", "coordinate", "array"))
    symmetry = (
        "general"
        if rng.random() < 0.8
        else rng.choice(("symmetric", "skew-symmetric", "hermitian"))
    )
    field = (
        "real" if rng.random() < 0.8 else rng.choice(("integer", "pattern", "complex", "double"))
    )
    lines = [f"%%MatrixMarket matrix {layout} {field} {symmetry}", "% a comment"]
    if layout == "array":
        lines += [f"{size} {size}", *(repr(float(value)) for value in matrix.T.ravel())]
    else:
        lines += [
            f"{size} {size} {len(entries)}",
            *(f"{i} {j} {value!r}" for i, j, value in entries),
        ]
    text = "\n".join(lines).replace("np.float64(", "").replace(")", "") + "\n"
    if rng.random() < 0.3:  # sizes that are lies
        lie = rng.choice(
            (
                "-1 -1 -1",
                "0 0 0",
                f"{size} {size} 999999999",
                "99999999999 99999999999 1",
                "1 1",
                "3 3 x",
            )
        )
        text = text.replace(lines[2], lie, 1)
    return (
        spoilt_text(rng, text).encode("utf-8", "surrogatepass")
        if rng.random() < 0.4
        else text.encode()
    )


def as_csv(rng: Random, matrix: NDArray[Any]) -> bytes:
    text = "\n".join(",".join(repr(float(value)) for value in line) for line in matrix)
    return (
        spoilt_text(rng, text).encode("utf-8", "surrogatepass")
        if rng.random() < 0.5
        else text.encode()
    )


def as_safetensors(rng: Random, matrix: NDArray[Any]) -> bytes:
    return spoilt_safetensors(rng, save({rng.choice(("a", "layers.0.attention")): matrix}))


WRITERS: dict[str, Callable[[Random, NDArray[Any]], bytes]] = {
    "npy": as_npy,
    "npz": as_npz,
    "mtx": as_mtx,
    "csv": as_csv,
    "safetensors": as_safetensors,
}


def wrong_target(folder: Path, out: str, code: int) -> str | None:
    """The target that was kept, against the file read by other means."""
    kept = arrays(folder / "fit.safetensors")
    size = len(kept["x.0"])
    target = np.zeros((size, size))
    target[kept["target.0.row"].astype(int), kept["target.0.col"].astype(int)] = kept[
        "target.0.value"
    ]
    path = next(folder.glob("p.*"))
    matrix = read_otherwise(path)
    if matrix is None:
        return None
    largest = matrix.max(axis=1, keepdims=True)
    scaled = matrix / largest
    true = scaled / scaled.sum(axis=1, keepdims=True)
    near = true.shape == target.shape and np.allclose(target, true, rtol=1e-9, atol=1e-300)
    return None if near else f"{path.name}: {target.tolist()} and not {true.tolist()}"


def read_otherwise(path: Path) -> NDArray[np.float64] | None:
    """numpy's and scipy's own readers; None where they read nothing, which is for them to know."""
    try:
        if path.suffix == ".npy":
            return np.asarray(np.load(path), dtype=np.float64)
        if path.suffix == ".safetensors":
            return next(iter(arrays(path).values()))
        if path.suffix == ".csv":
            lines = [line for line in path.read_text().splitlines() if line.strip()]
            return np.array([[float(cell) for cell in line.split(",")] for line in lines])
        if path.suffix == ".mtx":
            return read_mtx(path.read_text())
        from scipy.sparse import load_npz

        with np.load(path) as held:
            if "format" not in held.files:
                return np.asarray(held[held.files[0]], dtype=np.float64)
        return np.asarray(load_npz(path).todense(), dtype=np.float64)
    except (ValueError, OSError, KeyError, json.JSONDecodeError):
        return None


def read_mtx(text: str) -> NDArray[np.float64]:
    """The simplest reader of what is whole."""
    lines = text.splitlines()
    _, _, layout, field, symmetry = lines[0].lower().split()
    numbers = [line.split() for line in lines[1:] if line.strip() and not line.startswith("%")]
    rows, columns = int(numbers[0][0]), int(numbers[0][1])
    result = np.zeros((rows, columns))
    if layout == "coordinate":
        for words in numbers[1:]:
            i, j = int(words[0]) - 1, int(words[1]) - 1
            result[i, j] = 1.0 if field == "pattern" else float(words[2])
            if symmetry != "general" and i != j:
                result[j, i] = result[i, j] * (-1 if symmetry == "skew-symmetric" else 1)
        return result
    values = iter([float(word) for line in numbers[1:] for word in line])
    for j in range(columns):
        for i in range(rows):
            if symmetry == "general" or i > j or (i == j and symmetry == "symmetric"):
                result[i, j] = next(values)
                if symmetry != "general":
                    result[j, i] = result[i, j]
    return result
