"""Weights that are overwritten or cut off while they are read: one sentence, at whatever moment it happens."""

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_checkpoints import saved

import attncli as attn
from attncli.errors import InputError
from attncli.io import safetensors_arrays
from attncli.models.files import lazy_tensors, weight_files
from attncli.models.loading.load_model import load_model

WEIGHTS = "model.safetensors"
READERS = (weight_files, lazy_tensors, safetensors_arrays)

MAPPED = """
import os, sys
from pathlib import Path
from attncli.models.files.lazy_tensors import memory_map_tensors
file = Path(sys.argv[1])
with memory_map_tensors([file]) as state:
    tensor = state["big"][...]
    os.truncate(file, 5000)
    print(tensor.sum())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    saved("BertForMaskedLM", tmp_path)
    return tmp_path


def after(reads: int, harm: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Once so many parts of a file have been read, it is harmed."""
    counted = itertools.count()  # its next() is one step, whichever threads of transformers read

    def reading(path: Path, *place: Any) -> None:
        if next(counted) == reads:
            harm()
        real(path, *place)

    real = safetensors_arrays.read_byte_ranges
    for module in READERS:
        monkeypatch.setattr(module, "read_byte_ranges", reading)


@pytest.mark.parametrize("reads", [0, 1, 20, 45, 60, 80])
@pytest.mark.parametrize("harm", ["cut off", "overwritten", "replaced", "gone"])
def test_weights_that_change_while_they_are_read(
    folder: Path, reads: int, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint has some forty tensors, each of which is hashed first and then loaded."""
    path = folder / WEIGHTS
    other = {name: tensor + 1 for name, tensor in load_file(path).items()}
    assert 40 < len(other) < 45
    save_file(other, folder / "other")
    ways = {
        "cut off": lambda: os.truncate(path, 1500),
        "overwritten": lambda: path.write_bytes((folder / "other").read_bytes()),
        "replaced": lambda: os.replace(folder / "other", path),
        "gone": path.unlink,
    }
    after(reads, ways[harm], monkeypatch)
    with pytest.raises(InputError, match=rf"{WEIGHTS} (was c|cannot be read: No such file)"):
        load_model(str(folder))


@pytest.mark.parametrize("reads", [0, 3, 10])
def test_heads_read_from_a_file_that_is_cut_off(
    folder: Path, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    after(reads, lambda: os.truncate(folder / WEIGHTS, 1500), monkeypatch)
    with pytest.raises(InputError, match=r"was (cut off|changed) while it was read"):
        attn.inspect_weights(str(folder))


def test_a_model_keeps_its_weights_whatever_becomes_of_its_file(folder: Path) -> None:
    """It is in memory, and nobody who overwrites the file changes what is measured."""
    model = load_model(str(folder)).model
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    size = (folder / WEIGHTS).stat().st_size
    (folder / WEIGHTS).write_bytes(b"\xff" * size)
    os.truncate(folder / WEIGHTS, 10)
    assert all(torch.equal(before[name], now) for name, now in model.state_dict().items())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGBUS"), reason="the system has no such signal")
def test_a_mapped_file_that_is_cut_off_ends_with_a_sentence(tmp_path: Path) -> None:
    """Where memory is short, files are mapped; whoever cuts one off would end the process without a word."""
    file = tmp_path / WEIGHTS
    save_file({"big": torch.ones(1_000_000)}, file)
    done = subprocess.run(
        [sys.executable, "-c", MAPPED, str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done
    assert done.stderr == f"attn: a file of {tmp_path} was cut off while it was read: run again.\n"


def test_where_there_is_no_room_the_file_is_mapped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same numbers."""
    read = load_model(str(folder)).model.state_dict()
    monkeypatch.setattr("attncli.resource_limits.available_memory", lambda: 1000)
    monkeypatch.setattr(lazy_tensors, "LazyTensor", None)
    monkeypatch.setattr(lazy_tensors, "explain_truncated_file", lambda folder: None)
    other = shutil.copytree(folder, folder / "copy")
    paged = load_model(str(other)).model.state_dict()
    assert all(torch.equal(read[name], tensor) for name, tensor in paged.items())
