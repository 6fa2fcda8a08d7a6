"""Rules for sums, products and linear layers: linear in every stream; constants begin at length 0."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attncli.tensor_subclasses.path_streams.partial_streams import (
    RecordedAttention,
    make_missing_rule_error,
)
from attncli.tensor_subclasses.path_streams.path_tensor import (
    PathTensor,
    align_path_streams,
    rule,
)
from attncli.tensor_subclasses.torch_function_rules import Operand


@rule(F.linear)
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> PathTensor:
    if not isinstance(x, PathTensor) or isinstance(weight, PathTensor):
        raise make_missing_rule_error("a product with a stream as its weights")
    return add_bias_to_path_streams(x.wrap_as_path_streams(F.linear(x.numbers, weight)), bias)


@rule(torch.addmm, Tensor.addmm)
def addmm(bias: Any, x: Any, weight: Any) -> PathTensor:
    """addmm, as GPT-2's Conv1D calls it."""
    if isinstance(bias, PathTensor) or isinstance(weight, PathTensor):
        raise make_missing_rule_error("addmm with a stream as its bias or weights")
    return add_bias_to_path_streams(x.wrap_as_path_streams(x.numbers @ weight), bias)


@rule(torch.matmul, Tensor.matmul, Tensor.__matmul__)
def matmul(x: Any, y: Any) -> Tensor:
    """Products with weights; in handwritten attention, of queries with keys and of maps with values."""
    if isinstance(x, PathTensor) and isinstance(y, PathTensor):
        return compute_full_residual_stream_scores(x, y)
    if isinstance(y, PathTensor):
        return mix_value_vectors(x, y)
    if y.dim() != 2:
        raise make_missing_rule_error(
            "a product of the stream with something that is no weight matrix"
        )
    stream: PathTensor = x
    return stream.wrap_as_path_streams(stream.numbers @ y)


def compute_full_residual_stream_scores(query: PathTensor, key: PathTensor) -> Tensor:
    """Scores of the full stream alone, which sets the maps; the result is plain, in a batch of one."""
    if query.dim() != 4 or key.dim() != 4:
        raise make_missing_rule_error(
            "a product of two streams that are not [batch, head, token, feature]"
        )
    return query.full_residual_stream().detach() @ key.full_residual_stream().detach()


def mix_value_vectors(maps: Tensor, values: PathTensor) -> PathTensor:
    """P V for every stream, with maps [1, head, query, key]."""
    if maps.dim() != 4 or values.dim() != 4 or maps.shape[:2] != (1, values.shape[1]):
        raise make_missing_rule_error("a product with a stream on its right")
    visible = (maps > 0.0).any(dim=1, keepdim=True)
    outputs = values.streams.select_attention_outputs_per_path(
        RecordedAttention(maps, visible, maps @ values.numbers)
    )
    return values.wrap_as_path_streams(outputs).mark_attention_output()


def add_bias_to_path_streams(x: PathTensor, bias: Tensor | None) -> PathTensor:
    return x if bias is None else x.add_constant_to_path_streams(bias)


@rule(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
def add(x: Any, y: Any, *, alpha: float = 1.0) -> PathTensor:
    if alpha != 1.0:
        y = multiply(y, alpha) if isinstance(y, PathTensor) else y * alpha
    if isinstance(x, PathTensor) and isinstance(y, PathTensor):
        first, second = align_path_streams([require_path_streams_of_same_shape(x, y), y])
        return first.wrap_as_path_streams(first.numbers + second.numbers)
    stream, other = (x, y) if isinstance(x, PathTensor) else (y, x)
    if isinstance(other, int | float):
        if other == 0:
            return stream.wrap_as_path_streams(stream.numbers)
        other = stream.numbers.new_tensor(other)
    return stream.add_constant_to_path_streams(other)


@rule(Tensor.add_, Tensor.__iadd__)
def add_in_place(x: Operand, y: Operand, *, alpha: float = 1.0) -> PathTensor:
    """Add in place: the same memory is written to, so that every view changes as in the model."""
    if not isinstance(x, PathTensor):
        raise make_missing_rule_error("writing a stream into something else")
    result = add(x, y, alpha=alpha)
    if result.attended != x.attended and x.streams.tells_apart:
        raise make_missing_rule_error("writing what comes from an attention into the stream")
    x.numbers.copy_(result.numbers)
    return x


@rule(torch.sub, Tensor.sub, Tensor.__sub__)
def subtract(x: Operand, y: Operand, *, alpha: float = 1.0) -> PathTensor:
    return add(x, multiply(y, -alpha) if isinstance(y, PathTensor) else y * -alpha)


@rule(Tensor.__rsub__, torch.rsub)
def subtract_from(x: Operand, y: Operand) -> PathTensor:
    return subtract(y, x)


@rule(Tensor.neg, torch.neg, Tensor.__neg__)
def negative(x: PathTensor) -> PathTensor:
    return x.wrap_as_path_streams(-x.numbers)


@rule(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__)
def multiply(x: Any, y: Any) -> PathTensor:
    """Multiply by a constant; of two streams, the one that comes from an activation is a gate and keeps the full stream's values."""
    if isinstance(x, PathTensor) and isinstance(y, PathTensor):
        require_path_streams_of_same_shape(x, y)
        if x.activated == y.activated:
            raise make_missing_rule_error(
                "a product of two streams of which not just one is a gate"
            )
        stream, gate = (y, x) if x.activated else (x, y)
        through = stream.multiply_all_path_streams(gate.view_with_path_stream_axis()[0].detach())
        return through.transform_path_streams(through.streams.update_paths_after_mlp)
    stream, other = (x, y) if isinstance(x, PathTensor) else (y, x)
    result = stream.numbers * other
    if result.shape != stream.shape:
        raise make_missing_rule_error("a product that repeats the stream")
    return stream.wrap_as_path_streams(result)


@rule(Tensor.mul_, Tensor.__imul__)
def multiply_in_place(x: Operand, y: Operand) -> PathTensor:
    """Multiply in place: the same memory is written to."""
    if not isinstance(x, PathTensor) or isinstance(y, PathTensor):
        raise make_missing_rule_error("a product with a stream that is written into something")
    x.numbers.copy_(multiply(x, y).numbers)
    return x


@rule(torch.div, Tensor.div, Tensor.__truediv__, Tensor.true_divide)
def divide(x: Any, y: Any) -> PathTensor:
    if isinstance(y, PathTensor):
        raise make_missing_rule_error("a division by a stream")
    stream: PathTensor = x
    return stream.wrap_as_path_streams(stream.numbers / y)


def require_path_streams_of_same_shape(x: PathTensor, y: PathTensor) -> PathTensor:
    if x.shape != y.shape:
        raise make_missing_rule_error(
            f"streams of shapes {tuple(x.shape)} and {tuple(y.shape)} together"
        )
    return x
