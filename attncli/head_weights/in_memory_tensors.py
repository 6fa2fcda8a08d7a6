"""Tensors of a loaded or unpickled model, with the interface of those in files."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attncli.errors import NonFiniteNumbers
from attncli.io.safetensors_headers import TensorOffset
from attncli.models.files.tensor_reader import Array, TensorReader

if TYPE_CHECKING:
    from torch import Tensor


class InMemoryTensors(TensorReader):
    """`state`: tensors by name, of which only methods are used."""

    def __init__(self, name: str, state: "Mapping[str, Tensor]") -> None:
        self.folder = Path(name)
        self.state = state
        self.places = {
            key: TensorOffset(self.folder, str(t.dtype), tuple(t.shape), 0, 0)
            for key, t in state.items()
        }
        self.read_from = set()
        self.name = cache(self.find_tensor_by_suffix)

    def dtype(self, name: str) -> str:
        """The dtype by the name that files use."""
        from attncli.models.files.state_dict_hashing import name_safetensors_dtype

        return name_safetensors_dtype(self.state[name])

    def sha256(self) -> str:
        """The hash that the same tensors would have in a file."""
        from attncli.models.files.state_dict_hashing import hash_state_dict

        return hash_state_dict(
            str(self.folder), {name: self.state[name] for name in self.read_from}
        )

    def read_tensor_part(self, name: str, part: tuple[slice, ...]) -> Array:
        self.read_from.add(name)
        result: Array = np.array(self.state[name][part].detach().cpu().double().numpy())
        if not np.isfinite(result).all():
            raise NonFiniteNumbers(
                f"{self.folder}: tensor {name} holds a number that is not finite."
            )
        return result


def read_pickled_tensors(folder: Path) -> InMemoryTensors:
    """Read all pickled tensors of a folder; torch, which alone can read them, runs no code in them."""
    from attncli.models.files.load_weights import read_weights

    with read_weights(folder, allow_pickle=True).open_state() as state:
        return InMemoryTensors(str(folder), state)
