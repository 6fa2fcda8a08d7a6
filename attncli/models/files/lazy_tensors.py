"""Tensors of safetensors files that are read when they are asked for.

They are read into memory, never mapped: a file that is cut off while it is read is then an error that can be said, and one
that is overwritten later changes no weight of a model that runs. Only where there is no room are they mapped.
"""

import ctypes
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from attncli.errors import InputError
from attncli.io.arrays import read_bytes
from attncli.io.headers import TensorPlace
from attncli.limits import fits_memory

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
TYPES = {name: dtype for dtype, name in STORED_AS.items()} | {
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
}


class LazyTensor:
    """Has of safetensors' slices what transformers asks of them."""

    def __init__(self, place: TensorPlace) -> None:
        self.place = place

    def __getitem__(self, index: Any) -> torch.Tensor:
        raw = torch.empty(self.place.size, dtype=torch.uint8)
        read_bytes(self.place.path, [self.place.offset], raw.numpy()[None])
        return raw.view(TYPES[self.place.dtype]).reshape(self.place.shape)[index]

    def get_shape(self) -> list[int]:
        return list(self.place.shape)

    def get_dtype(self) -> str:
        return self.place.dtype


def read_lazily(places: Mapping[str, TensorPlace]) -> dict[str, Any]:
    return {name: LazyTensor(place) for name, place in places.items()}


@contextmanager
def memory_map_tensors(files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Tensors that the system pages from the files, which takes no memory of its own."""
    explain_truncated_file(files[0].parent)
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(path, framework="pt")) for path in files]
        yield {name: file.get_slice(name) for file in opened for name in file.keys()}  # noqa: SIM118


def fit_in_memory(files: Sequence[Path]) -> bool:
    """Whether the files would fit into memory."""
    return fits_memory(sum(path.stat().st_size for path in files))


GUARD: list[Any] = []
"""The handler, which ctypes would else forget."""


def explain_truncated_file(folder: Path) -> None:
    """A mapped file that is cut off ends the process (SIGBUS): with a sentence, where it would end without one."""
    if not hasattr(signal, "SIGBUS") or signal.getsignal(signal.SIGBUS) is not signal.SIG_DFL:
        return
    sentence = f"attn: a file of {folder} was cut off while it was read: run again.\n".encode()

    def end(number: int) -> None:
        os.write(2, sentence)
        os._exit(InputError.exit_code)

    # Python's own handlers run once the access has succeeded, which here is never.
    GUARD[:] = [ctypes.CFUNCTYPE(None, ctypes.c_int)(end)]
    ctypes.CDLL(None).signal(signal.SIGBUS, GUARD[0])
