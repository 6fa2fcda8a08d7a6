"""The weights of a model folder: their names, types, hash, and the tensors themselves for transformers to place.

The files that are hashed are the very ones that are loaded: transformers is handed tensors, not a folder in which it
would choose files (and adapters, and generation code) by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pickle import UnpicklingError
from typing import Any
from zipfile import is_zipfile

import torch
from safetensors import safe_open

from attncli.errors import InputError, with_article
from attncli.models.files.hashing import FLOATS, Weight, stored, weight_sha256
from attncli.models.files.weight_files import pickles_to_read, read_headers, weight_files
from attncli.models.library_errors import understood
from attncli.stored.headers import WIDTHS
from attncli.stored.held import refuse_not_in_full

STORED_AS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""safetensors' names of torch's types, so that the same weights have one hash in either format."""

EXTRA = "_extra_state"
"""How torch ends the name of what a module notes beside its tensors."""

State = Mapping[str, Any]
"""Tensors, or slices that become tensors when they are read."""


@dataclass(frozen=True, slots=True)
class Weights:
    """All tensors of a folder, checked to be numbers."""

    format: str
    """`safetensors` or `pickle`."""
    dtypes: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    sha256: str
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
    places = read_headers(files)
    dtypes = {name: place.dtype for name, place in places.items()}
    refuse_other_types(folder, dtypes)

    @contextmanager
    def opened() -> Iterator[State]:
        with ExitStack() as stack:
            state: dict[str, Any] = {}
            for path in files:
                file = stack.enter_context(safe_open(path, framework="pt"))
                state |= {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            yield state

    shapes = {name: place.shape for name, place in places.items()}
    return Weights("safetensors", dtypes, shapes, weight_sha256(stored(places)), opened)


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
    return Weights("pickle", dtypes, shapes, state_sha256(str(folder), state), opened)


def unpickled(path: Path) -> Any:
    mapped = is_zipfile(path) or None
    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
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
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return Weight(
        where, name, type_name(tensor), tuple(tensor.shape), flat.view(torch.uint8).numpy()
    )
