"""Write safetensors files, the same bytes every time.

The safetensors library orders metadata at random and renames over its target, which replaces devices and pipes.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attncli.io.atomic_files import write_atomically
from attncli.progress import Say
from attncli.records import JsonObject

DTYPES = {"float64": "F64", "float32": "F32", "int64": "I64", "uint8": "U8"}


def write_safetensors(
    path: Path, tensors: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str]
) -> None:
    """Write eight bytes of header length, the JSON header, and the tensors in order."""
    header: JsonObject = {"__metadata__": dict(metadata)}
    offset = 0
    for name, array in tensors.items():
        end = offset + array.nbytes
        header[name] = {
            "dtype": DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # tensors start at a multiple of 8
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).data)


def save_safetensors_and_report(
    path: Path, tensors: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str], say: Say
) -> None:
    """Write the file whole or not at all, and report it."""
    write_atomically(path, lambda target: write_safetensors(target, tensors, metadata))
    size = sum(array.nbytes for array in tensors.values())
    count = f"{len(tensors)} tensor{'s' if len(tensors) > 1 else ''}"
    say(f"{count}, {size / 1e6:.3g} MB → {path}")
