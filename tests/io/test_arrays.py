"""The reader of safetensors files against the library's own, and what it refuses."""

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from attncli.errors import InputError
from attncli.io.safetensors_arrays import DTYPES, StoredArrays
from attncli.models.files.tensor_reader import TensorReader
from attncli.networks.network_files import (
    FileNetwork,
    build_network_metadata,
    collect_network_tensors,
)
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

KINDS = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool")  # fmt: skip


def written(path: Path, header: Any, data: bytes = b"") -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_those_of_the_library(kind: str, tmp_path: Path) -> None:
    array = (np.random.default_rng(0).random((3, 4, 5)) * 9 - 2).astype(np.float64)
    with np.errstate(invalid="ignore"):
        held = {"a": np.abs(array).astype(kind), "b": np.zeros(3), "empty": np.zeros((0, 2))}
    save_file(held, tmp_path / "x.safetensors")
    file = StoredArrays(tmp_path / "x.safetensors")
    for name, wanted in held.items():
        np.testing.assert_array_equal(file.read_tensor(name), wanted, strict=True)
    for axis in range(3):
        part = np.take(held["a"], range(1, 3), axis=axis)
        np.testing.assert_array_equal(file.read_block("a", 1, 3, axis=axis), part, strict=True)


def test_bfloat16_is_exact(tmp_path: Path) -> None:
    values = torch.randn(7, 5).to(torch.bfloat16)
    save_torch({"a": values}, tmp_path / "x.safetensors")
    found = StoredArrays(tmp_path / "x.safetensors").read_tensor("a")
    np.testing.assert_array_equal(found, values.float().numpy(), strict=True)


@pytest.mark.parametrize("kind", ["F8_E4M3", "F8_E5M2", "F4", "C64", "U128", "a\nb"])
def test_types_without_numbers_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    header = {"a": {"dtype": kind, "shape": [2, 2], "data_offsets": [0, 32]}}
    file = StoredArrays(written(tmp_path / "x.safetensors", header, bytes(32)))
    assert kind not in DTYPES
    with pytest.raises(InputError, match="tensor a holds"):
        file.read_tensor("a")


@pytest.mark.parametrize(
    "said", [5, [], "x", {"a": 1}, {"a": None}, {"a": {"b": "c"}}, True], ids=repr
)
def test_metadata_are_text_by_text(said: object, tmp_path: Path) -> None:
    path = written(tmp_path / "x.safetensors", {"__metadata__": said})
    with pytest.raises(InputError, match="its metadata are not text by text"):
        StoredArrays(path)


@pytest.mark.parametrize("shape", [[0, 2**62], [2**31, 0, 2**40], [0, 10**40]])
def test_an_axis_of_none_hides_no_size(shape: list[int], tmp_path: Path) -> None:
    header = {"a": {"dtype": "F32", "shape": shape, "data_offsets": [0, 0]}}
    with pytest.raises(InputError, match="beyond any memory"):
        StoredArrays(written(tmp_path / "x.safetensors", header))


def test_a_network_that_is_cut_off_during_the_run_is_said(tmp_path: Path) -> None:
    """A map of the file would end the process by SIGBUS."""
    path = tmp_path / "net.safetensors"
    network = GeneratedNetwork(NetworkSpec(layers=3, tokens=40, width=64, heads=2), 0)
    save_file(collect_network_tensors(network), path, build_network_metadata(network, "paper"))
    opened = FileNetwork(path)
    opened.layer_weights(0)
    with path.open("r+b") as file:
        file.truncate(4096)
    with pytest.raises(InputError, match="was cut off while it was read"):
        opened.layer_weights(2)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)  # fmt: skip
names = st.sampled_from(("a", "__metadata__", "dtype", "shape", "data_offsets"))


@pytest.mark.slow
@given(header=st.dictionaries(names, json_values, max_size=3), data=st.binary(max_size=16))
def test_any_header_is_read_or_refused(
    header: Any, data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    with contextlib.suppress(InputError):
        StoredArrays(written(path, header, data))


def test_a_nan_that_signals_is_refused_without_a_word_of_numpy(tmp_path: Path) -> None:
    """Its cast to float64 is an invalid operation to the processor."""
    path = tmp_path / "model.safetensors"
    signals = np.array([0x7FA00000, 0x3F800000], "<u4").view("<f4")
    save_file({"a.weight": signals}, path)
    with pytest.raises(InputError, match=r"tensor a\.weight holds a number that is not finite"):
        TensorReader(tmp_path, [path]).read_tensor_rows("a.weight", slice(None))
