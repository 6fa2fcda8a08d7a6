from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics._median import median
from attncli.metrics.attention._head_outputs import HeadOutputs

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", needs=("outputs",))
def head_contribution(outputs: HeadOutputs) -> "Tensor":
    """Median over tokens of ‖ctx_h W_O,h‖ / Σ_h ‖ctx_h W_O,h‖: a head's share of what the layer writes.

    1/heads: as much as the others; 0: the head writes nothing. Norms come from the Gram matrices W_O,h W_O,h^T, d × d.
    """
    context = outputs.context.transpose(1, 2)
    projection = outputs.projection.to(context.dtype)
    gram = projection @ projection.transpose(-2, -1)
    norms = (context @ gram).mul_(context).sum(dim=-1).clamp_min_(0.0).sqrt_()
    total = norms.sum(dim=1, keepdim=True)
    return median((norms / total).nan_to_num_(0.0))  # nothing of nothing is 0
