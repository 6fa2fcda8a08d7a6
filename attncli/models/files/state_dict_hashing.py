"""Hash tensors in memory as if they were in a file."""

from collections.abc import Mapping

import torch
from torch import Tensor

from attncli.errors import InputError, add_article
from attncli.models.files.weight_hashing import CHUNK, WeightBytes, hash_weights

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
"""The suffix of torch's names for extra state that a module saves along with its tensors."""


def name_safetensors_dtype(tensor: torch.Tensor) -> str:
    return STORED_AS.get(tensor.dtype, str(tensor.dtype))


def hash_state_dict(where: str, state: Mapping[str, Tensor]) -> str:
    """Hash tensors in memory as if they were in a file; modules' extra state does not enter."""
    tensors = {name: value for name, value in state.items() if not name.endswith(EXTRA)}
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor):
            raise InputError(
                f"{where} holds {name} as {add_article(type(value).__name__)}, not as a tensor: quantised weights are not read, so "
                "give the model as it was before."
            )
    return hash_weights(
        iter_weight_bytes(where, name, tensor) for name, tensor in sorted(tensors.items())
    )


def iter_weight_bytes(where: str, name: str, tensor: torch.Tensor) -> WeightBytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    chunks = (flat[start : start + CHUNK] for start in range(0, flat.size, CHUNK))
    return WeightBytes(where, name, name_safetensors_dtype(tensor), tuple(tensor.shape), chunks)
