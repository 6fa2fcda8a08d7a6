"""Convert a model to another dtype, as a checkpoint of that dtype would be loaded."""

import torch
from torch import nn


def cast_model(model: nn.Module, dtype: torch.dtype) -> None:
    """Cast a model in place. Indices and complex angles keep their dtype, and computed buffers (rotary angles) are never
    rounded to a short one."""
    for module in model.modules():
        computed = module._non_persistent_buffers_set if dtype.itemsize < 4 else set()
        buffers = module.named_buffers(recurse=False)
        kept = [tensor for name, tensor in buffers if name not in computed]
        for tensor in (*module.parameters(recurse=False), *kept):
            if tensor.is_floating_point() and tensor.dtype != dtype:
                tensor.data = tensor.data.to(dtype)
