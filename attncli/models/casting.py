"""Convert a model to another dtype, as a checkpoint of that dtype would be loaded."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn


def cast_model(model: nn.Module, dtype: torch.dtype) -> None:
    """Cast a model in place. Indices and complex angles keep their dtype."""
    with torch.no_grad():
        for tensor in iter_castable_tensors(model, dtype):
            if tensor.is_floating_point() and tensor.dtype != dtype:
                tensor.data = tensor.data.to(dtype)


def iter_castable_tensors(model: nn.Module, dtype: torch.dtype) -> Iterator[Tensor]:
    """Parameters and buffers, but no non-persistent ones (rotary angles) if the dtype is short: these are never rounded."""
    for module in model.modules():
        yield from module.parameters(recurse=False)
        computed = module._non_persistent_buffers_set if dtype.itemsize < 4 else set()
        yield from (
            tensor for name, tensor in module.named_buffers(recurse=False) if name not in computed
        )
