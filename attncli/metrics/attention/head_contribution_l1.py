from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics._median import median
from attncli.metrics.attention._head_outputs import HeadOutputs

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("outputs",))
def head_contribution_l1(outputs: HeadOutputs) -> "Tensor":
    """Median over tokens of ‖ctx_h W_O,h‖₁ / Σ_h ‖ctx_h W_O,h‖₁: `head_contribution` by sums of absolute values.

    After the analysis of heads in Multiformer (Sant et al. 2022): alike in all heads is held for healthy. One head's part of
    the layer's output at a time is formed.
    """
    projection = outputs.projection.to(outputs.context.dtype)
    norms = outputs.context.new_empty(outputs.context.shape[:3])
    for head, matrix in enumerate(projection):
        norms[..., head] = (outputs.context[:, :, head] @ matrix).abs_().sum(dim=-1)
    norms = norms.transpose(1, 2)
    # nothing of nothing is 0
    return median((norms / norms.sum(dim=1, keepdim=True)).nan_to_num_(0.0))
