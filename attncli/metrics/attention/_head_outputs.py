"""The outputs of a layer's heads, and the projection W_O that takes them into the stream."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class HeadOutputs(NamedTuple):
    """The two factors of the product whose sum over heads, plus a bias, is the attention's output."""

    context: "Tensor"
    """[batch, query, head, value]: the weighted values."""
    projection: "Tensor"
    """[head, value, feature]: each head's part of W_O."""
