"""einsum as matrix products."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncli.forward_argument_types import Output
from attncli.tensor_subclasses.residual_split.lazy_attention_scores import SCORE_RULES, WEIGHT_RULES
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitTensor,
    make_missing_rule_error,
    map_split_parts_linearly,
    rule,
)
from attncli.tensor_subclasses.residual_split.split_tensor_arithmetic import to_float64_array
from attncli.tensor_subclasses.torch_function_rules import Operand, StreamTensor


@rule(torch.einsum, torch.functional.einsum)
def einsum(equation: str, *operands: Any) -> Output:
    """einsum of two operands, with no letter twice in one operand."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    sides, arrow, result = equation.replace(" ", "").partition("->")
    letters = sides.split(",")
    if not arrow or len(letters) != 2 or "." in equation:
        raise make_missing_rule_error(f"einsum {equation} of the stream")
    one, other = letters
    x, y = operands
    if is_product_of_split_features(x, y, one, other, result):
        return multiply_split_features(x, y, equation)
    if is_product_of_split_features(y, x, other, one, result):
        return multiply_split_features(y, x, f"{other},{one}->{result}")
    return einsum_as_matmul(equation, (x, y), (one, other), result)


for table in (SCORE_RULES, WEIGHT_RULES):
    table[torch.einsum] = table[torch.functional.einsum] = einsum


def is_product_of_split_features(x: Operand, y: Operand, one: str, other: str, result: str) -> bool:
    """Whether a plain operand multiplies the features of a split one, and leaves its tokens alone."""
    if not isinstance(x, SplitTensor) or isinstance(y, StreamTensor):
        return False
    token = one[x.axis]
    return token not in other and token in result


def multiply_split_features(x: SplitTensor, y: torch.Tensor, equation: str) -> SplitTensor:
    """Multiply c and V by the same numbers."""
    one, _, result = equation.replace("->", ",").split(",")
    weights = to_float64_array(y)
    return map_split_parts_linearly(
        x, lambda part: np.einsum(equation, part, weights), result.index(one[x.axis])
    )


def einsum_as_matmul(
    equation: str, operands: tuple[Any, Any], letters: tuple[str, str], result: str
) -> Output:
    """Write an einsum as a matmul: one letter summed over, at most one letter of each operand's own; all others as batch."""
    one, other = letters
    batch = [letter for letter in one if letter in other and letter in result]
    summed = [letter for letter in one if letter in other and letter not in result]
    rows = [letter for letter in one if letter not in other]
    columns = [letter for letter in other if letter not in one]
    if [len(summed), len(rows), len(columns)] != [1, 1, 1] or len({*result}) != len(result):
        raise make_missing_rule_error(f"einsum {equation} of the stream")
    x = permute_einsum_axes(operands[0], one, [*batch, *rows, *summed])
    y = permute_einsum_axes(operands[1], other, [*batch, *summed, *columns])
    return permute_einsum_axes(torch.matmul(x, y), "".join([*batch, *rows, *columns]), list(result))


def permute_einsum_axes(x: Tensor, letters: str, target: list[str]) -> Tensor:
    order = [letters.index(letter) for letter in target]
    return x if order == sorted(order) else torch.permute(x, order)
