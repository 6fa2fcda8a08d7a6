"""Arrays in memory, with the interface of the tensors of a file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError, add_article

if TYPE_CHECKING:
    from torch import Tensor

DTYPES: Mapping[str, str] = {"float64": "F64", "float32": "F32", "float16": "F16"}
"""numpy dtypes by safetensors' names."""

ALONE = "the array"
"""The name of an array without one."""


class InMemoryArrays:
    """Arrays in memory with the interface of `safetensors_arrays.StoredArrays`."""

    def __init__(
        self, where: str, arrays: Mapping[str, NDArray[np.generic]], metadata: Mapping[str, str]
    ) -> None:
        self.path = where
        self.arrays = arrays
        self.metadata = dict(metadata)

    def names(self) -> list[str]:
        return sorted(self.arrays)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.arrays[name].shape

    def dtype(self, name: str) -> str:
        return DTYPES.get(self.arrays[name].dtype.name, "F64")

    def require_readable(self, name: str) -> None:
        """Whether it can be read: every array can."""

    def read_block(
        self, name: str, start: int, stop: int, axis: int = 0, lead: tuple[int, ...] = ()
    ) -> NDArray[np.generic]:
        """Entries `start` to `stop` of an axis, and all of the others; `lead`: of the array at this index of its first axes."""
        index: tuple[int | slice, ...] = (*lead, *(slice(None),) * axis, slice(start, stop))
        return np.array(self.arrays[name][index])


def iter_named_arrays(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over one array, or those in mappings and sequences by index: `attentions.3`; None is left out."""
    if has_shape(value):
        yield name or ALONE, value
        return
    if isinstance(value, Mapping):
        members = [(str(key), each) for key, each in value.items()]
    elif isinstance(value, Sequence) and any(map(contains_arrays, value)):
        members = [(str(place), each) for place, each in enumerate(value)]
    else:
        yield name or ALONE, value
        return
    for key, each in members:
        if each is not None:
            yield from iter_named_arrays(each, f"{name}.{key}" if name else key)


def contains_arrays(value: Any) -> bool:
    if has_shape(value):
        return True
    within = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, Mapping | list | tuple) and any(map(contains_arrays, within))


def has_shape(value: object) -> bool:
    """Whether it has a shape: a nested tensor's raises an error when read."""
    try:
        return hasattr(value, "shape")
    except RuntimeError:
        return True


def to_numpy(value: object, name: str) -> NDArray[np.generic]:
    """Convert to numpy: tensors from any device, half precision as float32, lists of lists."""
    refuse_masked_arrays(value, name)
    if hasattr(value, "detach"):
        value = torch_to_numpy(value, name)
    if hasattr(value, "toarray"):  # a sparse matrix of scipy
        value = value.toarray()
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{name} is no array: its rows differ in length.") from None
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if (
        array.dtype.kind == "O"
        and array.size
        and all(isinstance(each, int | float) for each in array.flat)
    ):
        return array.astype(float)
    if array.dtype.kind == "O":
        raise InputError(
            f"{name} is no array of numbers: it is or holds {describe_type_of_first_non_number(array)}."
        )
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} holds {array.dtype} values: attention weights are real numbers.")
    return array if array.dtype.name in DTYPES else array.astype(float)


def require_dense_tensor_in_memory(tensor: "Tensor", name: str) -> None:
    """Refuse a torch tensor that is not dense, or not all of whose numbers are in memory, as an expanded one's."""
    dense = str(tensor.layout) == "torch.strided" and not tensor.is_quantized
    here = dense and tensor.device.type == "cpu"
    if not here or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise InputError(f"{name} is not stored in full: save it by .contiguous().")


def refuse_masked_arrays(value: object, name: str) -> None:
    """Refuse masked arrays: numpy drops the mask silently, and masked numbers would count."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{name} has masked entries: say what stands there, as .filled(0) does.")


def torch_to_numpy(value: Any, name: str) -> NDArray[np.generic]:
    """Convert a tensor of any layout, on any device with storage."""
    if value.is_meta:
        raise InputError(
            f"{name} is a meta tensor, which holds no numbers: run the model on a device that does."
        )
    if getattr(value, "is_nested", False):
        raise InputError(
            f"{name} is a nested tensor, of rows that may differ in length: give each apart."
        )
    try:
        whole = value.detach().cpu()
        whole = whole if str(whole.layout) == "torch.strided" else whole.to_dense()
        small = whole.is_floating_point() and whole.element_size() < 4
        found: NDArray[np.generic] = (whole.float() if small else whole).resolve_neg().numpy()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise InputError(
            f"{name} cannot be read as an array: {str(error).partition('.')[0]}."
        ) from None
    return found


def describe_type_of_first_non_number(array: NDArray[np.generic]) -> str:
    """Describe the type of the first element that is no number."""
    objects = (each for each in array.flat if not isinstance(each, int | float))
    return add_article(type(next(objects, None)).__name__)
