"""Arrays that the caller holds, read as the tensors of a file are."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES: Mapping[str, str] = {"float64": "F64", "float32": "F32", "float16": "F16"}
"""Of numpy, as safetensors calls them."""


class HeldArrays:
    """Has what `arrays.StoredArrays` has, and no file."""

    def __init__(
        self, where: str, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]
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

    def readable(self, name: str) -> None:
        """Everything is, once it is an array."""

    def block(self, name: str, start: int, stop: int, axis: int = 0) -> NDArray[Any]:
        """Entries `start` to `stop` of an axis, and all of the others."""
        index = (*(slice(None),) * axis, slice(start, stop))
        return np.array(self.arrays[name][index])
