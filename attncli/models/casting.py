"""A model's numbers in another type, as a checkpoint of that type is loaded."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn


def cast_model(model: nn.Module, dtype: torch.dtype) -> None:
    """In place. Indices and complex angles stay what they are."""
    with torch.no_grad():
        for tensor in iter_castable_tensors(model, dtype):
            if tensor.is_floating_point() and tensor.dtype != dtype:
                tensor.data = tensor.data.to(dtype)


def iter_castable_tensors(model: nn.Module, dtype: torch.dtype) -> Iterator[Tensor]:
    """Parameters and buffers, but those outside the checkpoint (rotary angles) where the type is short: they are never rounded."""
    for module in model.modules():
        yield from module.parameters(recurse=False)
        computed = module._non_persistent_buffers_set if dtype.itemsize < 4 else set()
        yield from (
            tensor for name, tensor in module.named_buffers(recurse=False) if name not in computed
        )
