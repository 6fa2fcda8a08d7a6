"""The weights of a model folder: their names, types, hash, and the tensors themselves for transformers to place.

The files that are hashed are the very ones that are loaded: transformers is handed tensors, not a folder in which it
would choose files (and adapters, and generation code) by itself.
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

from attncli.errors import InputError, with_article
from attncli.io.headers import WIDTHS
from attncli.io.in_memory_arrays import refuse_not_in_full
from attncli.io.stamps import refuse_changed, stamps
from attncli.models.files.hashing import FLOATS, Weight, in_chunks, stored, weight_sha256
from attncli.models.files.lazy_tensors import (
    STORED_AS,
    is_room_for,
    mapped,
    read_lazily,
    say_when_cut_off,
)
from attncli.models.files.weight_files import pickles_to_read, read_headers, weight_files
from attncli.models.library_errors import understood

EXTRA = "_extra_state"
"""How torch ends the name of what a module notes beside its tensors."""

COPIES = 3
"""A pickle's tensors, and as many again in a type twice as wide."""

State = Mapping[str, Any]
"""Tensors, or slices that become tensors when they are read."""


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors of a folder, checked to be numbers."""

    format: str
    """`safetensors` or `pickle`."""
    dtypes: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    sha256: Callable[[], str]
    """Read once, with all numbers checked to be finite."""
    opened: Callable[[], AbstractContextManager[State]]

    def floats(self) -> int:
        """How many numbers there are."""
        return sum(
            torch.Size(shape).numel()
            for name, shape in self.shapes.items()
            if self.dtypes[name] in FLOATS
        )


def read_weights(folder: Path, allow_pickle: bool) -> Weights:
    """All that is there, in whichever format."""
    pickled = pickles_to_read(folder, allow_pickle)
    return from_pickles(folder, pickled) if pickled else from_safetensors(folder)


def from_safetensors(folder: Path) -> Weights:
    files = weight_files(folder)
    before = stamps(files)
    places = read_headers(files)
    dtypes = {name: place.dtype for name, place in places.items()}
    refuse_other_types(folder, dtypes)

    @contextmanager
    def opened() -> Iterator[State]:
        if is_room_for(files):
            yield read_lazily(places)
        else:
            with mapped(files) as state:
                yield state
        refuse_changed(before)

    shapes = {name: place.shape for name, place in places.items()}
    sha256 = cache(lambda: weight_sha256(stored(places)))
    return Weights("safetensors", dtypes, shapes, sha256, opened)


def from_pickles(folder: Path, files: list[Path]) -> Weights:
    """Tensors alone: torch's restricted reader builds no other objects and runs no code."""
    state: dict[str, torch.Tensor] = {}
    for path in files:
        found = understood(
            folder, f"{path.name} cannot be read as pickled tensors", partial(unpickled, path)
        )
        refuse_no_tensors(path, found)
        state |= found
    dtypes = {name: type_name(tensor) for name, tensor in state.items()}
    refuse_other_types(folder, dtypes)

    @contextmanager
    def opened() -> Iterator[State]:
        yield state

    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    sha256 = cache(lambda: state_sha256(str(folder), state))
    return Weights("pickle", dtypes, shapes, sha256, opened)


def unpickled(path: Path) -> Any:
    paged = is_zipfile(path) and not is_room_for([path] * COPIES)
    if paged:
        say_when_cut_off(path.parent)
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=paged)
    except UnpicklingError:  # torch's own advice is to run the code
        raise no_tensors(path) from None


def refuse_no_tensors(path: Path, found: object) -> None:
    if not isinstance(found, Mapping) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in found.items()
    ):
        raise no_tensors(path)
    for name, tensor in found.items():
        refuse_not_in_full(tensor, f"{path}: {name}")


def no_tensors(path: Path) -> InputError:
    return InputError(
        f"{path} holds more than tensors by name, which is not read, as it could run any code: save the model's state_dict alone."
    )


def refuse_other_types(folder: Path, dtypes: Mapping[str, str]) -> None:
    for name, dtype in dtypes.items():
        if dtype not in WIDTHS or dtype == "C64":
            raise InputError(
                f"{folder}: tensor {name} holds {dtype}, which is not read: give a checkpoint in {', '.join(FLOATS)}."
            )


def type_name(tensor: torch.Tensor) -> str:
    return STORED_AS.get(tensor.dtype, str(tensor.dtype))


def state_sha256(where: str, state: Mapping[str, Any]) -> str:
    """The hash of tensors in memory: the one that they would have in a file; what modules note beside them is none."""
    held = {name: value for name, value in state.items() if not name.endswith(EXTRA)}
    for name, value in held.items():
        if not isinstance(value, torch.Tensor):
            raise InputError(
                f"{where} holds {name} as {with_article(type(value).__name__)}, not as a tensor: quantised weights are not read, so "
                "give the model as it was before."
            )
    return weight_sha256(as_bytes(where, name, tensor) for name, tensor in sorted(held.items()))


def as_bytes(where: str, name: str, tensor: torch.Tensor) -> Weight:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return Weight(where, name, type_name(tensor), tuple(tensor.shape), in_chunks(flat))
