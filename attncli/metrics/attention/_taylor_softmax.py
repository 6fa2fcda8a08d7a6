"""Rows of linear attention: polynomials of the logits instead of the exponential."""

from typing import TYPE_CHECKING

from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


def compute_distance_to_kernel_attention(rows: MapStripRows, kernel: "Tensor") -> "Tensor":
    """[batch, head, query]: total variation between a row and that of a kernel [batch, head, query, key], which is overwritten."""
    if rows.visible is not None:
        kernel = kernel.masked_fill_(~rows.visible, 0.0)
    kernel = kernel.div_(kernel.sum(dim=-1, keepdim=True))
    own = rows.weights / rows.row_sums[..., None]
    return kernel.sub_(own).abs_().sum(dim=-1) / 2.0


def scale_logits_into_unit_range(rows: MapStripRows) -> "Tensor":
    """[batch, head, query, key]: the logits less their row mean, scaled down where they leave [-1, 1].

    They are never scaled up: that would change nearly uniform rows.
    """
    largest = rows.logits.abs().amax(dim=-1, keepdim=True)
    return rows.logits / largest.clamp_min(1.0)
