"""Matrices of other programs: numpy's and scipy's writers are read exactly, and broken files never believed."""

import contextlib
import io
import resource
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import attn_program
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import mmread, mmwrite
from scipy.sparse import bsr_array, coo_array, csc_array, csr_array, dia_array, save_npz

from attncli.errors import AttnError, InputError, LimitError
from attncli.patterns._array_files import read_mtx, read_npy, read_npz
from attncli.patterns._make_sparse_pattern import normalise_pattern_rows
from attncli.patterns._pattern_files import read_pattern

RNG = np.random.default_rng(0)
MATRIX = RNG.random((6, 6)) * (RNG.random((6, 6)) < 0.5) + np.eye(6)


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int64", "uint8", "bool"])
def test_npy_and_npz(kind: str, layout: str, tmp_path: Path) -> None:
    wanted = np.array(MATRIX.astype(kind), order=layout)  # type: ignore[call-overload]
    np.save(tmp_path / "a.npy", wanted)
    np.savez_compressed(tmp_path / "a.npz", wanted)
    for found in (read_npy(tmp_path / "a.npy"), read_npz(tmp_path / "a.npz")):
        np.testing.assert_array_equal(found.toarray(), wanted.astype(np.float64))


def test_rows_are_read_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.patterns._array_files.ROWS_AT_ONCE", 13)
    np.save(tmp_path / "a.npy", MATRIX)
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy").toarray(), MATRIX)


@pytest.mark.parametrize("maker", [csr_array, csc_array, coo_array, bsr_array, dia_array])
def test_sparse_npz(maker: Callable[..., Any], tmp_path: Path) -> None:
    save_npz(tmp_path / "a.npz", maker(MATRIX))
    np.testing.assert_array_equal(read_npz(tmp_path / "a.npz").toarray(), MATRIX)


SYMMETRIC = MATRIX + MATRIX.T
SKEW = np.triu(MATRIX, 1) - np.triu(MATRIX, 1).T


@pytest.mark.parametrize("matrix", [MATRIX, SYMMETRIC, SKEW, np.eye(3, dtype=int)])
@pytest.mark.parametrize("sparse", [True, False])
def test_mtx_as_scipy_writes_and_reads_it(matrix: Any, sparse: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    mmwrite(path, coo_array(matrix) if sparse else matrix, precision=17)
    theirs = mmread(path)
    wanted = theirs.toarray() if sparse else theirs
    np.testing.assert_array_equal(read_mtx(path).toarray(), wanted)


def test_mtx_of_places_alone(tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern symmetric\n%\n\n2 2 2\n1 1\n2 1\n"
    )
    assert read_mtx(tmp_path / "a.mtx").toarray().tolist() == [[1.0, 1.0], [1.0, 0.0]]


HEAD = "%%MatrixMarket matrix coordinate real general\n"
ARRAY = "%%MatrixMarket matrix array real general\n"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("", InputError, "no MatrixMarket header"),
        ("%%MatrixMarket matrix\n", InputError, "no MatrixMarket header"),
        (HEAD, InputError, "its line of sizes"),
        (HEAD + "-1 -1 1\n", InputError, "its line of sizes"),
        (HEAD + "2 2 99999999999\n", LimitError, "pattern can have"),
        (HEAD + "9999999999999 2 1\n", InputError, "beyond any memory"),
        (HEAD + "2 2 3\n1 1 1\n", InputError, "3 entries of 3 numbers"),
        (HEAD + "2 2 1\n3 1 1\n", InputError, "outside the matrix"),
        (HEAD + "2 2 1\n0 1 1\n", InputError, "outside the matrix"),
        (ARRAY + "2 2\n1\n2\n3\n", InputError, "3 numbers and should 4"),
        (ARRAY + "99999 99999\n1\n", LimitError, "pattern can have"),
        (ARRAY.replace("general", "hermitian") + "1 1\n1\n", InputError, "hermitian matrix, which is not read"),
        (HEAD.replace("real", "complex") + "1 1 1\n1 1 1 1\n", InputError, "complex general matrix"),
        (ARRAY.replace("general", "symmetric") + "2 3\n1\n", InputError, "cannot be symmetric"),
    ],
)  # fmt: skip
def test_broken_mtx(text: str, kind: type[AttnError], said: str, tmp_path: Path) -> None:
    (tmp_path / "a.mtx").write_text(text)
    with pytest.raises(kind, match=said):
        read_mtx(tmp_path / "a.mtx")


@given(text=st.text("0123 \n-.e%x", max_size=40), head=st.sampled_from((HEAD, ARRAY, "")))
def test_any_mtx_is_read_or_refused(text: str, head: str, tmp_path_factory: pytest.TempPathFactory) -> None:  # fmt: skip
    path = tmp_path_factory.getbasetemp() / "any.mtx"
    path.write_text(head + text)
    with contextlib.suppress(AttnError):
        read_pattern(str(path), None, causal=False)


def test_indices_of_a_sparse_archive_are_checked_before_they_are_followed(tmp_path: Path) -> None:
    """scipy's own code would write outside its arrays."""
    whole = csr_array(MATRIX)
    for name, value in {"indices": 10**6, "indptr": -(10**6)}.items():
        parts = {"data": whole.data, "indices": whole.indices.copy(), "indptr": whole.indptr.copy()}
        parts[name][2] = value
        np.savez(tmp_path / "a.npz", format=b"csr", shape=whole.shape, **parts)
        with pytest.raises(InputError, match="cannot be read as npz"):
            read_pattern(str(tmp_path / "a.npz"), None, causal=False)


def bomb(path: Path, size: int) -> None:
    """An archive of zeros, a thousandth of what it unpacks to."""
    header = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": (size, size)}
    np.lib.format.write_array_header_1_0(header, described)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as file,
    ):
        file.write(header.getvalue())
        for _ in range(200):
            file.write(bytes(8 * size))


@pytest.mark.parametrize("size", [28_000, 10**9])
def test_a_bomb_is_refused_by_what_it_says_and_not_unpacked(size: int, tmp_path: Path) -> None:
    bomb(tmp_path / "a.npz", min(size, 28_000))
    if size > 28_000:
        np.savez(
            tmp_path / "a.npz", format=b"coo", shape=(size, size), data=[1.0], row=[0], col=[0]
        )
    with pytest.raises(LimitError, match="a pattern can have"):
        read_pattern(str(tmp_path / "a.npz"), None, causal=False)


@pytest.mark.slow
def test_a_bomb_takes_no_memory(tmp_path: Path) -> None:
    """In a process that may not have a gigabyte more than it needs to start."""
    bomb(tmp_path / "a.npz", 28_000)
    limit = 4 * 2**30

    def narrow() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    done = attn_program("approximate", "--pattern", str(tmp_path / "a.npz"), preexec_fn=narrow)
    assert done.returncode == 4, done.stderr
    assert "a pattern can have" in done.stderr


@pytest.mark.parametrize("low", [1e-310, 1e-300, 5e-324])
def test_a_weight_that_is_nothing_beside_its_rows_largest_is_refused(low: float, tmp_path: Path) -> None:  # fmt: skip
    (tmp_path / "a.csv").write_text(f"1,{low!r}\n0,1\n")
    with pytest.raises(InputError, match="lost in rounding"):
        read_pattern(str(tmp_path / "a.csv"), None, causal=False)


@pytest.mark.parametrize("factor", [1e308, 1e-300, 1e-307, 1.0])
def test_rows_at_the_ends_of_floats_are_normalised(factor: float) -> None:
    weights = np.array([[1.0, 1.0], [0.5, 1.5]]) * factor
    found = normalise_pattern_rows(csr_array(weights)).toarray()
    np.testing.assert_allclose(found, [[0.5, 0.5], [0.25, 0.75]], rtol=1e-15)


@pytest.mark.parametrize("number", ["0", "9" * 4400, "9" * 30])
def test_top_is_a_number_that_can_be(number: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,0\n0,1\n")
    with pytest.raises(AttnError, match="top must be a whole number"):
        read_pattern(f"{tmp_path / 'a.csv'}:top={number}", None, causal=False)
