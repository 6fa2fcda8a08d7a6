"""What the heads of a layer hand on, and the map that takes it into the stream."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class HeadOutputs(NamedTuple):
    """The two sides of the product whose sum over heads, and a bias, is the attention's output."""

    context: "Tensor"
    """[batch, query, head, value]: the values, weighed."""
    projection: "Tensor"
    """[head, value, feature]: each head's part of W_O."""
