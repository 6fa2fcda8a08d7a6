"""Read plain tensors from files of torch.save, without running code in them."""

import pickle
import warnings
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from attncli.errors import InputError
from attncli.forward_argument_types import Output
from attncli.io.in_memory_arrays import (
    InMemoryArrays,
    iter_named_arrays,
    require_dense_tensor_in_memory,
    to_numpy,
)
from attncli.resource_limits import require_memory

BROKEN = (
    RuntimeError,
    ValueError,
    EOFError,
    OSError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    AssertionError,
)
"""What torch raises on a file that is not its own or truncated."""
RECIPE = "torch.save([each.cpu() for each in output.attentions], FILE)"


def read_torch_file(path: Path) -> InMemoryArrays:
    """Read a tensor, or lists and dicts of tensors, under names such as `attentions.3`."""
    require_memory(
        3 * read_unpacked_file_size(path), f"{path}, read whole,", "save fewer tokens or heads"
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(
            f"{path} holds more than plain tensors, which is not read, as it could run any code: save it by {RECIPE}."
        ) from None
    except BROKEN as error:
        why = str(error).partition("\n")[0].partition(". ")[0].rstrip(".") or type(error).__name__
        raise InputError(f"{path} cannot be read by torch: {why}.") from None
    try:
        arrays = {
            name: require_dense_tensor(path, name, value)
            for name, value in iter_named_arrays(found)
        }
    except RecursionError:
        raise InputError(f"{path} holds a list that holds itself: save it by {RECIPE}.") from None
    return InMemoryArrays(str(path), arrays, {})


def read_unpacked_file_size(path: Path) -> int:
    """The size that the file declares: an archive may unpack to more than its own size."""
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            return max(size, sum(each.file_size for each in archive.infolist()))
    except (zipfile.BadZipFile, OSError):
        return size


def require_dense_tensor(path: Path, name: str, value: object) -> Output:
    """Refuse tensors that are not dense, or not all of whose numbers are in the file."""
    if not isinstance(value, Tensor):
        raise InputError(f"{path}: {name} is no tensor: save it by {RECIPE}.")
    require_dense_tensor_in_memory(value, f"{path}: {name}")
    return to_numpy(value, f"{path}: {name}")
