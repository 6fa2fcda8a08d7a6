"""Tensors of safetensors files that are read on access.

They are read into memory, not mapped: a file that is truncated while it is read is then an ordinary error, and one that
is overwritten later changes no weight of a running model. Only where memory is short are they mapped.
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
from torch import Tensor

from attncli.errors import InputError
from attncli.io.safetensors_arrays import read_byte_ranges
from attncli.io.safetensors_headers import TensorOffset
from attncli.models.files.state_dict_hashing import STORED_AS
from attncli.resource_limits import is_within_memory

TYPES = {name: dtype for dtype, name in STORED_AS.items()} | {
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
}


class LazyTensor:
    """Has the methods of safetensors' slices that transformers calls."""

    def __init__(self, place: TensorOffset) -> None:
        self.place = place

    def __getitem__(self, index: Any) -> torch.Tensor:
        raw = torch.empty(self.place.size, dtype=torch.uint8)
        read_byte_ranges(self.place.path, [self.place.offset], raw.numpy()[None])
        return raw.view(TYPES[self.place.dtype]).reshape(self.place.shape)[index]

    def get_shape(self) -> list[int]:
        return list(self.place.shape)

    def get_dtype(self) -> str:
        return self.place.dtype


def read_tensors_lazily(places: Mapping[str, TensorOffset]) -> dict[str, Any]:
    return {name: LazyTensor(place) for name, place in places.items()}


@contextmanager
def memory_map_tensors(files: Sequence[Path]) -> Iterator[dict[str, Tensor]]:
    """Map tensors into memory: the system pages them from the files."""
    explain_truncated_file(files[0].parent)
    with ExitStack() as stack:
        opened = [stack.enter_context(safe_open(path, framework="pt")) for path in files]
        yield {name: file.get_slice(name) for file in opened for name in file.keys()}  # noqa: SIM118


def do_files_fit_in_memory(files: Sequence[Path]) -> bool:
    """Whether the files would fit in memory."""
    return is_within_memory(sum(path.stat().st_size for path in files))


GUARD: list[Any] = []
"""The signal handler: ctypes drops a callback that nothing references."""


def explain_truncated_file(folder: Path) -> None:
    """Explain a mapped file that is truncated: SIGBUS ends the process, and this handler prints why."""
    if not hasattr(signal, "SIGBUS") or signal.getsignal(signal.SIGBUS) is not signal.SIG_DFL:
        return
    sentence = f"attn: a file of {folder} was cut off while it was read: run again.\n".encode()

    def exit_with_message(number: int) -> None:
        os.write(2, sentence)
        os._exit(InputError.exit_code)

    # Python's own signal handlers run only after the access succeeds, which it never does here.
    GUARD[:] = [ctypes.CFUNCTYPE(None, ctypes.c_int)(exit_with_message)]
    ctypes.CDLL(None).signal(signal.SIGBUS, GUARD[0])
