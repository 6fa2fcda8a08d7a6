from math import nan
from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._column_and_diagonal_sums import Offsets

if TYPE_CHECKING:
    from torch import Tensor

FAR = 64
"""Tokens back up to which the decay is looked at, or half the text if that is less."""

GONE = 1e-6
"""Mean weight on a diagonal below which nothing is left to decay."""


@metric(
    "1",
    group="memory",
    needs=("same tokens",),
    undefined="no two offsets have the weight that a decay could be told from",
)
def decay(offsets: Offsets) -> "Tensor":
    """Slope of -ln O_r, O_r the mean weight r tokens back, over r = 1 … 64 (or n/2) while O_r > 1e-6.

    λ: each token further back weighs e^-λ times as much; 0: no decay by distance alone. Least squares.
    """
    import torch

    length = min(FAR, (offsets.weights.shape[-1] - offsets.zero) // 2)
    causal_part = slice(offsets.zero + 1, offsets.zero + 1 + length)
    mean = offsets.weights[..., causal_part] / offsets.pairs[..., causal_part].clamp_min(1)
    there = (mean > GONE).cumprod(dim=-1).double()
    count = there.sum(dim=-1, keepdim=True)
    place = torch.arange(1.0, length + 1.0, dtype=torch.float64, device=mean.device)
    logs = mean.clamp_min(GONE).log()
    x = (place - (there * place).sum(dim=-1, keepdim=True) / count.clamp_min(1)) * there
    slope = -(x * logs).sum(dim=-1) / x.square().sum(dim=-1).clamp_min(GONE)
    return slope.masked_fill(count[..., 0] < 2, nan)
