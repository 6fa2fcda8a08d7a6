"""All weights of a model folder: names, types, hash, and the tensors for transformers to place.

The files that are hashed are the ones that are loaded: transformers gets tensors, not a folder in which it would choose
files (and adapters, and generation code) by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import is_zipfile

import torch

from attncli.errors import InputError
from attncli.io.file_change_detection import record_file_versions, refuse_changed_files
from attncli.io.in_memory_arrays import require_dense_tensor_in_memory
from attncli.io.safetensors_headers import WIDTHS
from attncli.models.files.lazy_tensors import (
    do_files_fit_in_memory,
    explain_truncated_file,
    memory_map_tensors,
    read_tensors_lazily,
)
from attncli.models.files.state_dict_hashing import hash_state_dict, name_safetensors_dtype
from attncli.models.files.weight_files import (
    find_weight_files,
    iter_stored_weights,
    list_pickled_weights_if_allowed,
    read_safetensors_headers,
)
from attncli.models.files.weight_hashing import FLOATS, hash_weights
from attncli.models.library_errors import translate_library_errors

COPIES = 3
"""Copies in memory: a pickle's tensors, and twice as much for a dtype twice as wide."""

State = Mapping[str, Any]
"""Tensors by name, or slices that become tensors when read."""


@dataclass(frozen=True, slots=True)
class LoadedWeights:
    """All tensors of a folder, checked to be numbers."""

    format: str
    """`safetensors` or `pickle`."""
    dtypes: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    sha256: Callable[[], str]
    """Computes the hash; reads all numbers once and checks that they are finite."""
    open_state: Callable[[], AbstractContextManager[State]]

    def count_floating_numbers(self) -> int:
        """How many floating numbers there are."""
        return sum(
            torch.Size(shape).numel()
            for name, shape in self.shapes.items()
            if self.dtypes[name] in FLOATS
        )


def read_weights(folder: Path, allow_pickle: bool) -> LoadedWeights:
    """Read all weights, in either format."""
    pickled = list_pickled_weights_if_allowed(folder, allow_pickle)
    return read_pickled_weights(folder, pickled) if pickled else read_safetensors_weights(folder)


def read_safetensors_weights(folder: Path) -> LoadedWeights:
    files = find_weight_files(folder)
    before = record_file_versions(files)
    places = read_safetensors_headers(files)
    dtypes = {name: place.dtype for name, place in places.items()}
    refuse_unsupported_dtypes(folder, dtypes)

    @contextmanager
    def open_state_dict() -> Iterator[State]:
        if do_files_fit_in_memory(files):
            yield read_tensors_lazily(places)
        else:
            with memory_map_tensors(files) as state:
                yield state
        refuse_changed_files(before)

    shapes = {name: place.shape for name, place in places.items()}
    sha256 = cache(lambda: hash_weights(iter_stored_weights(places)))
    return LoadedWeights("safetensors", dtypes, shapes, sha256, open_state_dict)


def read_pickled_weights(folder: Path, files: list[Path]) -> LoadedWeights:
    """Read pickled weights, tensors alone: torch's restricted unpickler builds no other objects and runs no code."""
    state: dict[str, torch.Tensor] = {}
    for path in files:
        found = translate_library_errors(
            folder,
            f"{path.name} cannot be read as pickled tensors",
            partial(unpickle_tensors, path),
        )
        require_mapping_of_tensors(path, found)
        state |= found
    dtypes = {name: name_safetensors_dtype(tensor) for name, tensor in state.items()}
    refuse_unsupported_dtypes(folder, dtypes)

    @contextmanager
    def open_state_dict() -> Iterator[State]:
        yield state

    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    sha256 = cache(lambda: hash_state_dict(str(folder), state))
    return LoadedWeights("pickle", dtypes, shapes, sha256, open_state_dict)


def unpickle_tensors(path: Path) -> Any:
    paged = is_zipfile(path) and not do_files_fit_in_memory([path] * COPIES)
    if paged:
        explain_truncated_file(path.parent)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=paged)
    except UnpicklingError:  # torch's own message advises running the code
        raise make_not_tensors_error(path) from None


def require_mapping_of_tensors(path: Path, loaded: object) -> None:
    if not isinstance(loaded, Mapping) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor)
        for name, tensor in loaded.items()
    ):
        raise make_not_tensors_error(path)
    for name, tensor in loaded.items():
        require_dense_tensor_in_memory(tensor, f"{path}: {name}")


def make_not_tensors_error(path: Path) -> InputError:
    return InputError(
        f"{path} holds more than tensors by name, which is not read, as it could run any code: save the model's state_dict alone."
    )


def refuse_unsupported_dtypes(folder: Path, dtypes: Mapping[str, str]) -> None:
    for name, dtype in dtypes.items():
        if dtype not in WIDTHS or dtype == "C64":
            raise InputError(
                f"{folder}: tensor {name} holds {dtype}, which is not read: give a checkpoint in {', '.join(FLOATS)}."
            )
