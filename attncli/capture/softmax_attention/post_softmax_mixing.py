"""Maps that are mixed after their softmax: over heads (talking heads) or over keys, and weigh the values only then.

The product that a softmax meets first is taken for the weighing of values. Where it is not, what comes out is a map
again, and is multiplied by something that the pass has made; an output of attention meets weights of the model.
"""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import UNCHANGED, iter_nested_tensors, read_torch_function_name
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Output

MARK = "_attncli_product"
"""Attribute of products of a map that still have axes of queries and keys."""


class Product(NamedTuple):
    module: nn.Module
    """The module that the map was computed in."""
    keys: int


@dataclass
class MixedMapTracker:
    """Follows the first product of a map, where that could be a map itself."""

    model: nn.Module
    there: bool = False
    """Whether this pass follows any product."""

    def mark_possible_attention_map(
        self, module: nn.Module, weights: Tensor, result: Tensor
    ) -> None:
        queries, keys = weights.shape[-2:]
        absent = Counter((queries, keys)) - Counter(result.shape)
        if keys > 1 and not absent:
            setattr(result, MARK, Product(module, keys))
            self.there = True

    def follow_map_through_function(self, func: Function, args: Args, result: Output) -> None:
        """Follow views and copies; refuse a product with anything but a weight of the model."""
        tensors = list(iter_nested_tensors(args))
        product: Product | None = next(
            filter(None, (getattr(each, MARK, None) for each in tensors)), None
        )
        if product is None:
            return
        if isinstance(result, Tensor) and read_torch_function_name(func) in UNCHANGED:
            setattr(result, MARK, product)
        elif func in PRODUCTS and any(
            self.could_be_value_tensor(each, product.keys) for each in tensors
        ):
            raise InputError(
                f"{type(product.module).__name__} mixes its map after the softmax, over heads or over keys: what weighs the "
                "values is not the softmax, and its maps cannot be captured."
            )

    def could_be_value_tensor(self, other: Tensor, keys: int) -> bool:
        """Whether the operand could be the values: one row per key, computed in this pass."""
        return (
            not hasattr(other, MARK)
            and keys in other.shape[-2:]
            and not self.is_model_weight(other)
        )

    def is_model_weight(self, tensor: Tensor) -> bool:
        storage = tensor.untyped_storage().data_ptr()
        weights = (*self.model.parameters(), *self.model.buffers())
        return any(each.untyped_storage().data_ptr() == storage for each in weights)


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
"""The functions by which models multiply values by a map."""
