"""Arrays in numpy's files: the same numbers as numpy reads, in bounded memory, and nothing that runs code."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attncli import resource_limits
from attncli.errors import InputError, LimitError
from attncli.io.numpy_files import open_numpy_file
from attncli.io.safetensors_arrays import StoredArrays

ARRAY = np.random.default_rng(0).random((2, 3, 4, 5))


@pytest.mark.parametrize("kind", ["<f8", "<f4", "<f2", ">f4", ">f8", "<i8", "|u1", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("save", ["npy", "npz", "compressed"])
def test_blocks_are_those_of_numpy(kind: str, order: Any, save: str, tmp_path: Path) -> None:
    array = np.asarray(ARRAY * 3, dtype=kind, order=order)
    path = tmp_path / f"maps.{save[:3]}"
    {"npy": np.save, "npz": np.savez, "compressed": np.savez_compressed}[save](path, array)
    (written,) = tmp_path.iterdir()
    file = open_numpy_file(written)
    (name,) = file.names()
    assert file.shape(name) == (2, 3, 4, 5)
    for lead in ((), (1,), (1, 2)):
        for axis in range(4 - len(lead)):
            found = file.read_block(name, 1, 2, axis, lead)
            np.testing.assert_array_equal(found, np.take(array[lead], [1], axis=axis))


def test_a_plain_array_is_read_as_it_is_asked_for(tmp_path: Path) -> None:
    """So that a file larger than memory can be measured."""
    np.save(tmp_path / "a.npy", ARRAY)
    assert isinstance(open_numpy_file(tmp_path / "a.npy"), StoredArrays)


def header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f4", "fortran_order": False, "shape": shape})  # fmt: skip
    return stream.getvalue()


def test_an_archive_that_claims_more_than_there_is_room_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes of zeros, packed, that would fill the memory."""
    monkeypatch.setattr(resource_limits, "available_memory", lambda: 2**30)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("maps.npy", header((64, 4096, 4096)) + bytes(2**20))
    with pytest.raises(LimitError, match="needs about 12 GiB"):
        open_numpy_file(tmp_path / "bomb.npz")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (header((2, 3, 3)) + bytes(7), "cut off"),
        (b"\x93NUMPY\x01\x00", "cannot be read as numpy's"),
        (header((2, 3)).replace(b"}", b" "), "cannot be read as numpy's"),
        (header((2, 3)).replace(b"),", b" ,"), "cannot be read as numpy's"),
        (b"", "cannot be read as numpy's"),
        (b"PK\x03\x04 nothing", "cannot be read as numpy's"),
    ],
)
def test_broken_files_are_a_sentence(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(data)

    def read() -> None:
        file = open_numpy_file(tmp_path / "a.npz")
        file.read_block(file.names()[0], 0, 2)

    with pytest.raises(InputError, match=said):
        read()


@pytest.mark.parametrize("array", [np.array([[object()]]), np.zeros((2, 2), "V2"), np.zeros((2, 2), complex), np.array([["a"]])])  # fmt: skip
def test_what_is_no_real_number_is_refused_and_never_unpickled(array: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(InputError, match="real numbers are read"):
        open_numpy_file(tmp_path / "a.npy")
