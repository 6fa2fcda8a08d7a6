"""A file of maps, whoever has saved it: `attn inspect-maps FILE.npz`."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.errors import InputError
from attncli.io.arrays import StoredArrays
from attncli.io.numpy_files import NPY, numpy_arrays
from attncli.sources import Source, advice

if TYPE_CHECKING:
    from attncli.capture.saved_maps.map_files import MapFile
    from attncli.io.in_memory_arrays import HeldArrays

OTHERS = (".mtx", ".csv")
"""Of matrices that are patterns alone."""


def map_file(source: Source, batch: int | None, labels: Sequence[str] | None) -> "MapFile":
    """Opened, its maps found by their names and shapes."""
    from attncli.capture.saved_maps.foreign_maps import OwnMaps
    from attncli.capture.saved_maps.map_files import MapFile

    path = source.path
    arrays = arrays_in(source)
    ours = source.kind == "maps" and isinstance(arrays, StoredArrays) and not has_texts(arrays)
    if ours and batch is None:
        return MapFile(path, labels=labels)
    own = OwnMaps(arrays, batch, advice(source) if source.kind in ("weights", "pickle") else "")
    return MapFile(path, own, labels)


def arrays_in(source: Source) -> "StoredArrays | HeldArrays":
    """By what the file is."""
    path = source.path
    if source.kind in ("maps", "weights"):
        return StoredArrays(path)
    if path.suffix.lower() in OTHERS:
        raise InputError(
            f"{source} is one matrix as text: save maps as .npy, .npz, .safetensors or .pt."
        )
    if source.kind == "pattern" or is_numpys(path):
        return numpy_arrays(path)
    from attncli.capture.saved_maps.torch_files import torch_arrays

    return torch_arrays(path)


def is_numpys(path: Path) -> bool:
    """Whether an archive holds arrays of numpy, whatever it is called."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(NPY) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def has_texts(arrays: StoredArrays) -> bool:
    """Whether maps of a file like ours have an axis of texts, which --save-maps never writes."""
    from attncli.capture.saved_maps.map_names import NAME

    return any(len(arrays.shape(name)) > 3 for name in arrays.names() if NAME.fullmatch(name))
