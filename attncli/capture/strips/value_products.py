"""The functions by which models multiply values by a map."""

import torch
from torch import Tensor

PRODUCTS = {
    torch.matmul,
    Tensor.matmul,
    Tensor.__matmul__,
    Tensor.__rmatmul__,
    torch.bmm,
    Tensor.bmm,
    torch.baddbmm,
    Tensor.baddbmm,
    torch.einsum,
    torch.functional.einsum,
}
