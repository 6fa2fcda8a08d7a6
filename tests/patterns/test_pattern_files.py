"""Patterns from files: what is read, and what is refused with which sentence and code."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from scipy.io import mmwrite
from scipy.sparse import coo_array, csr_array, save_npz

from attncli.errors import AttnError, InputError, UsageError
from attncli.patterns import build_pattern
from attncli.patterns._array_files import read_mtx

RNG = np.random.default_rng(0)
DENSE = np.array([[0.5, 0.5, 0.0], [0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
WANTED = np.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.25, 0.0, 0.75]])

WRITERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "npy": ("a.npy", lambda path: np.save(path, DENSE)),
    "npy-float32": ("a.npy", lambda path: np.save(path, DENSE.astype(np.float32))),
    "npz-dense": ("a.npz", lambda path: np.savez(path, map=DENSE)),
    "npz-sparse": ("a.npz", lambda path: save_npz(path, csr_array(DENSE))),
    "mtx": ("a.mtx", lambda path: mmwrite(path, coo_array(DENSE))),
    "mtx-dense": ("a.mtx", lambda path: mmwrite(path, DENSE)),
    "csv": ("a.csv", lambda path: path.write_text("0.5, 0.5, 0\n0, 2, 0\n\n1, 0, 3\n")),
    "safetensors": ("a.safetensors", lambda path: save_file({"map": DENSE}, path)),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_is_read(kind: str, tmp_path: Path) -> None:
    name, write = WRITERS[kind]
    write(tmp_path / name)
    pattern = build_pattern(str(tmp_path / name), None, RNG)
    np.testing.assert_allclose(pattern.toarray(), WANTED, rtol=1e-7)


def test_head_of_saved_maps_kept_to_its_strongest(tmp_path: Path) -> None:
    maps = np.random.default_rng(1).dirichlet(np.ones(6), size=(2, 6))
    path = tmp_path / "maps.safetensors"
    save_file({"layers.3.attention": maps}, path)
    top = build_pattern(f"{path}:3.1:top=2", None, RNG).toarray()
    for row, full in zip(top, maps[1], strict=True):
        assert set(np.flatnonzero(row)) == set(np.argsort(full)[-2:])
    above = build_pattern(f"{path}:3.0:above=0.1", None, RNG)
    assert above.nnz == (maps[0] > 0.1).sum()


def spoiled(row: int, column: int, value: float) -> np.ndarray:
    matrix = DENSE.copy()
    matrix[row, column] = value
    return matrix


def sparse_parts(path: Path, kind: str, **parts: Any) -> None:
    """As scipy.sparse.save_npz would write them of the identity, but for some."""
    data = np.ones((1, 3)) if kind == "dia" else np.ones(3)
    np.savez(path, **{"format": kind, "shape": [3, 3], "data": data, **parts})


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
def test_dense_matrix_market_is_read_as_scipy_writes_it(symmetry: str, tmp_path: Path) -> None:
    drawn = np.random.default_rng(0).random((5, 5))
    kinds = {"general": drawn, "symmetric": drawn + drawn.T, "skew-symmetric": drawn - drawn.T}
    mmwrite(tmp_path / "a.mtx", kinds[symmetry], symmetry=symmetry)
    np.testing.assert_allclose(read_mtx(tmp_path / "a.mtx").toarray(), kinds[symmetry], rtol=1e-14)


BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "negative": ("a.npy", lambda p: np.save(p, spoiled(1, 2, -1.0)), "negative at row 1, column 2"),
    "nan": ("a.npy", lambda p: np.save(p, spoiled(0, 1, np.nan)), "not finite at row 0, column 1"),
    "infinite": ("a.npy", lambda p: np.save(p, spoiled(2, 2, np.inf)), "not finite"),
    "empty row": ("a.npy", lambda p: np.save(p, spoiled(1, 1, 0.0)), "row 1 has no weight"),
    "not square": ("a.npy", lambda p: np.save(p, DENSE[:2]), "2 × 3"),
    "three axes": ("a.npy", lambda p: np.save(p, DENSE[None]), "shape"),
    "no tokens": ("a.npy", lambda p: np.save(p, np.zeros((0, 0))), "0 × 0"),
    "complex": ("a.npy", lambda p: np.save(p, DENSE * 1j), "real numbers"),
    "words": ("a.npy", lambda p: np.save(p, np.array([["a"]])), "real numbers"),
    "pickle": ("a.npy", lambda p: np.save(p, np.array([[{}]]), allow_pickle=True), "cannot be read"),
    "torn": ("a.npz", lambda p: p.write_bytes(b"PK\x03\x04torn"), "cannot be read"),
    "empty file": ("a.npy", lambda p: p.write_bytes(b""), "cannot be read"),
    "two arrays": ("a.npz", lambda p: np.savez(p, a=DENSE, b=DENSE), "2 arrays"),
    "text in csv": ("a.csv", lambda p: p.write_text("a,b\n1,2\n"), "line 1, column 1: 'a' is not a number"),
    "ragged csv": ("a.csv", lambda p: p.write_text("1,2\n1\n"), "line 2 has 1 cell, the first has 2"),
    "empty csv": ("a.csv", lambda p: p.write_text(""), "shape|1 × 0|0 × 0"),
    "duplicate": (
        "a.mtx",
        lambda p: p.write_text(
            "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n2 2 1\n1 1 4\n"
        ),
        r"entry \(1, 1\) 2 times",
    ),
    "torn mtx": ("a.mtx", lambda p: p.write_text("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n"), "cannot be read"),
    "sizes that nothing stands behind": ("a.mtx", lambda p: p.write_text("%%MatrixMarket matrix array real general\n14000 14000\n1\n"), "holds 1 number and should 196000000"),
    "other digits": ("a.csv", lambda p: p.write_text("1_0,1\n1,1\n"), "'1_0' is not a number"),
    "other digits in mtx": ("a.mtx", lambda p: p.write_text("%%MatrixMarket matrix array real general\n1 1\n١\n"), "is no number"),
    "a diagonal far away": ("a.npz", lambda p: sparse_parts(p, "dia", offsets=[2**32]), "no place of a matrix"),
    "a diagonal outside": ("a.npz", lambda p: sparse_parts(p, "dia", offsets=[3]), "outside its 3 × 3"),
    "places between": ("a.npz", lambda p: sparse_parts(p, "csr", indices=[0.5, 1, 2], indptr=range(4)), "places are whole numbers"),
    "sizes between": ("a.npz", lambda p: sparse_parts(p, "csr", shape=[3.9, 3.9], indices=range(3), indptr=range(4)), "places are whole numbers"),
    "a part that lacks": ("a.npz", lambda p: np.savez(p, format="csr", data=np.ones(3)), "has no 'shape'"),
    "no array": ("a.npz", np.savez, "holds 0 arrays: save"),
    "no tensors": ("a.safetensors", lambda p: p.write_bytes(b"junk"), "cannot be read"),
    "two tensors": ("a.safetensors", lambda p: save_file({"a": DENSE, "b": DENSE}, p), "name a head"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_in_one_sentence(case: str, tmp_path: Path) -> None:
    name, write, says = BAD[case]
    write(tmp_path / name)
    with pytest.raises(InputError, match=says) as refused:
        build_pattern(str(tmp_path / name), None, RNG)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "length", "causal", "says", "kind"),
    [
        ("a.npy", 5, False, "3 tokens, but `length` says 5", UsageError),
        ("a.npy", None, True, "row 0, column 1, which the causal mask hides", InputError),
        ("a.npy:0.0", None, False, "only .safetensors files have heads", UsageError),
        ("b.npy", None, False, "does not exist", InputError),
        ("a.npy:above=1e", None, False, "must be a number", UsageError),
        ("a.npy:above=9", None, False, "row 0 has no weight", InputError),
    ],
)
def test_right_file_wrong_use(
    text: str, length: int | None, causal: bool, says: str, kind: type[AttnError], tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", DENSE)
    with pytest.raises(kind, match=says):
        build_pattern(f"{tmp_path}/{text}", length, RNG, causal)


def test_a_layer_that_a_file_holds_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "maps.safetensors"
    save_file({f"layers.{layer}.attention": DENSE[None] for layer in ("0", "00", "1")}, path)
    with pytest.raises(InputError, match=r"layers.0.attention and layers.00.attention are both"):
        build_pattern(f"{path}:0.0", None, RNG)
    build_pattern(f"{path}:1.0", None, RNG)
