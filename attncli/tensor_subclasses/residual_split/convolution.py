"""Convolutions of the stream: over one token at a time a linear layer, over several on plain numbers.

At its ends a convolution over tokens sees fewer of them, so the common row itself comes out different from token to
token: plain numbers lose nothing.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.maths.residuals.scaled_arrays import ScaledArray, make_scaled_array
from attncli.tensor_subclasses.residual_split.split_tensor import SplitTensor, rule


@rule(F.conv1d, torch.conv1d)
def conv1d(
    x: SplitTensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    if weight.shape[-1] > 1 or x.axis != x.dim() - 1:
        return F.conv1d(x.plain(), weight, bias, stride, padding, dilation, groups)
    common, varying = (convolve_part(part, weight, groups) for part in (x.common, x.varying))
    mixed = SplitTensor(common, varying, x.axis)
    return mixed if bias is None else torch.add(mixed, bias[:, None])


def convolve_part(part: ScaledArray, weight: Tensor, groups: int) -> ScaledArray:
    mantissa = torch.from_numpy(part.mantissa.copy())
    return make_scaled_array(
        F.conv1d(mantissa, weight.double(), groups=groups).numpy(), part.exponent
    )
