"""A file of maps, whoever has saved it: `attn inspect-maps FILE.npz`."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.errors import InputError
from attncli.io.numpy_files import NPY, open_numpy_file
from attncli.io.safetensors_arrays import StoredArrays
from attncli.model_and_file_sources import Source, suggest_command_for_file_or_model

if TYPE_CHECKING:
    from attncli.capture.saved_maps.map_files import MapFile
    from attncli.io.in_memory_arrays import InMemoryArrays

OTHERS = (".mtx", ".csv")
"""Extensions of pattern matrices, which are not map files."""


def open_map_file(source: Source, batch: int | None, labels: Sequence[str] | None) -> "MapFile":
    """Open a file of maps and find them by name and shape."""
    from attncli.capture.saved_maps.map_files import MapFile
    from attncli.capture.saved_maps.third_party_maps import ExternalMaps

    path = source.path
    arrays = open_arrays_in_map_file(source)
    ours = source.kind == "maps" and isinstance(arrays, StoredArrays) and not has_batch_axis(arrays)
    if ours and batch is None:
        return MapFile(path, labels=labels)
    own = ExternalMaps(
        arrays,
        batch,
        suggest_command_for_file_or_model(source) if source.kind in ("weights", "pickle") else "",
    )
    return MapFile(path, own, labels)


def open_arrays_in_map_file(source: Source) -> "StoredArrays | InMemoryArrays":
    """Open arrays according to the file's kind."""
    path = source.path
    if source.kind in ("maps", "weights"):
        return StoredArrays(path)
    if path.suffix.lower() in OTHERS:
        raise InputError(
            f"{source} is one matrix as text: save maps as .npy, .npz, .safetensors or .pt."
        )
    if source.kind == "pattern" or is_numpy_archive(path):
        return open_numpy_file(path)
    from attncli.capture.saved_maps.torch_files import read_torch_file

    return read_torch_file(path)


def is_numpy_archive(path: Path) -> bool:
    """Whether the zip archive contains numpy arrays, whatever its extension."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith(NPY) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def has_batch_axis(arrays: StoredArrays) -> bool:
    """Whether maps in a file of our layout have an axis of texts, which --save-maps never writes."""
    from attncli.capture.saved_maps.map_names import NAME

    return any(len(arrays.shape(name)) > 3 for name in arrays.names() if NAME.fullmatch(name))
