"""Lazy attention scores s q k^T + b and their softmax, inside a model's own code.

What the model does with its scores (scaling, positions and masks, sinks, softmax) is recorded; only where weights meet
values is it known whether P tends to one common row and must not be computed as such. Any other function gets numbers: a
split tensor where one can be had, else plain ones.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_map

from attncli.capture.softmax_attention.rowwise_masks import materialise_mask
from attncli.errors import NoExactRule
from attncli.forward_argument_types import Args, Function, Kwargs
from attncli.tensor_subclasses.residual_split.attention_score_terms import (
    HIDDEN,
    ScoreTerms,
    broadcast_score_terms,
)
from attncli.tensor_subclasses.residual_split.split_tensor import (
    SplitTensor,
    convert_split_to_plain,
    make_missing_rule_error,
    map_split_parts_linearly,
)
from attncli.tensor_subclasses.residual_split.split_tensor_attention import (
    compute_split_attention_output,
    do_score_rows_differ_by_query_only,
    mix_value_vectors,
)
from attncli.tensor_subclasses.torch_function_rules import (
    KNOWN_WITHOUT_NUMBERS,
    Operand,
    StreamTensor,
    Table,
    make_torch_function_rule_decorator,
)

SCORE_RULES: Table = {}
score_rule = make_torch_function_rule_decorator(SCORE_RULES)
WEIGHT_RULES: Table = {}
weight_rule = make_torch_function_rule_decorator(WEIGHT_RULES)


class DeferredTensor(StreamTensor):
    """A tensor that is computed only when a function needs its numbers."""

    terms: ScoreTerms

    @classmethod
    def from_score_terms(cls, terms: ScoreTerms, shape: Sequence[int]) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, tuple(shape), dtype=torch.float64)
        made.terms = terms
        return made

    def materialize_tensor(self) -> Tensor:
        """Compute its numbers."""
        raise NotImplementedError

    @classmethod
    def make_unsupported_function_error(cls, what: str) -> NoExactRule:
        return make_missing_rule_error(f"{what} of attention scores")

    @classmethod
    def __torch_function__(
        cls, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        name = getattr(func, "__name__", str(func))
        if func in cls.rules or (name in KNOWN_WITHOUT_NUMBERS and name != "requires_grad_"):
            return super().__torch_function__(func, types, args, kwargs)
        if is_in_place_function(name):
            raise cls.make_unsupported_function_error(name)
        args, kwargs = tree_map(materialize_if_deferred, (tuple(args), dict(kwargs or {})))
        return func(*args, **kwargs)


def is_in_place_function(name: str) -> bool:
    """Whether a function of this name writes to its argument."""
    inner = name.strip("_")
    return (
        name in ("__setitem__",)
        or (name.startswith("__i") and name != "__invert__")
        or (name == f"{inner}_")
    )


def materialize_if_deferred(value: Any) -> Any:
    return value.materialize_tensor() if isinstance(value, DeferredTensor) else value


class LazyScores(DeferredTensor):
    """Scores before the softmax."""

    rules = SCORE_RULES

    def materialize_tensor(self) -> Tensor:
        """Compute the scores: split where the keys do not depend on the stream, as in attention to other states."""
        return (
            compute_scores_as_split_tensor(self.terms)
            if is_linear_in_queries(self.terms)
            else self.terms.compute_plain_scores()
        )

    def overwrite_with_result(self, other: Tensor, name: str) -> "LazyScores":
        """Take over the result of a function that changes these scores in place."""
        if not isinstance(other, LazyScores) or other.shape != self.shape:
            raise self.make_unsupported_function_error(name)
        self.terms = other.terms
        torch.autograd.graph.increment_version(self)
        return self


def is_linear_in_queries(terms: ScoreTerms) -> bool:
    """Whether the scores are a linear function of a split stream of queries."""
    bare = terms.bias is None and terms.shift is None and terms.sink_scores is None
    return (
        bare
        and do_score_rows_differ_by_query_only(terms)
        and not isinstance(terms.key, SplitTensor)
    )


def compute_scores_as_split_tensor(terms: ScoreTerms) -> SplitTensor:
    """c K^T and V K^T."""
    query: Any = terms.query
    key = np.swapaxes(terms.key.to(torch.float64).numpy(), -1, -2) * terms.scale
    return map_split_parts_linearly(query, lambda part: part @ key, len(terms.leading_shape))


def make_lazy_scores(terms: ScoreTerms) -> LazyScores:
    made: LazyScores = LazyScores.from_score_terms(terms, terms.shape)
    return made


@score_rule(torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__)
def scale_lazy_scores(x: Any, y: Any) -> Tensor:
    """Scale by a number, or by one for each head."""
    scores, factor = (x, y) if isinstance(x, LazyScores) else (y, x)
    if isinstance(factor, DeferredTensor):
        return torch.mul(scores.materialize_tensor(), factor.materialize_tensor())
    if not isinstance(factor, Tensor) or factor.numel() == 1:
        return make_lazy_scores(scores.terms.scale_score_terms(float(factor)))
    terms = scores.terms
    bare = terms.bias is None and terms.shift is None and terms.sink_scores is None
    if isinstance(factor, StreamTensor) or not bare or not is_one_factor_per_map(factor, scores):
        return torch.mul(scores.materialize_tensor(), factor)
    return make_lazy_scores(terms._replace(query=terms.query * factor))


def is_one_factor_per_map(factor: Tensor, scores: Tensor) -> bool:
    """Whether a factor is one number for each map."""
    return factor.dim() <= scores.dim() and factor.dim() >= 2 and factor.shape[-2:] == (1, 1)


@score_rule(torch.div, Tensor.div, Tensor.__truediv__, Tensor.true_divide, torch.true_divide)
def divide(x: Any, y: Any) -> Tensor:
    if not isinstance(x, LazyScores):
        return torch.div(x, y.materialize_tensor())
    return scale_lazy_scores(
        x, 1.0 / y if not isinstance(y, StreamTensor) else 1.0 / materialize_if_deferred(y)
    )


@score_rule(torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__)
def add(x: Any, y: Any, *, alpha: float = 1.0) -> Tensor:
    """Add positions, masks, or what is constant along a row."""
    if not isinstance(x, LazyScores):
        x, y = (y, x) if alpha == 1.0 else (x, y.materialize_tensor())
    if not isinstance(x, LazyScores):
        return torch.add(x, y, alpha=alpha)
    y = materialise_mask(convert_split_to_plain(materialize_if_deferred(y)))
    y = y * alpha if alpha != 1.0 else y
    terms = x.terms
    if not isinstance(y, Tensor) or y.dim() == 0 or y.shape[-1] == 1:
        moved = torch.as_tensor(y, dtype=torch.float64)
        moved = moved.reshape(1, 1) if moved.dim() < 2 else moved
        return replace_score_terms(
            terms._replace(shift=moved if terms.shift is None else terms.shift + moved), x
        )
    if terms.sink_scores is not None:
        return torch.add(x.materialize_tensor(), y)
    y = y[None] if y.dim() == 1 else y
    return replace_score_terms(terms._replace(bias=y if terms.bias is None else terms.bias + y), x)


def replace_score_terms(terms: ScoreTerms, scores: LazyScores) -> Tensor:
    """Make scores with other terms; refuse a bias that would swamp them."""
    added = [tuple(part.shape[:-1]) for part in (terms.bias, terms.shift) if part is not None]
    rows = tuple(scores.shape[:-1])
    return (
        make_lazy_scores(terms)
        if np.broadcast_shapes(rows, *added) == rows
        else terms.compute_plain_scores()
    )


@score_rule(torch.sub, Tensor.sub, Tensor.__sub__)
def subtract(x: Any, y: Any) -> Tensor:
    if not isinstance(x, LazyScores):
        return torch.sub(x, y.materialize_tensor())
    return add(x, -materialize_if_deferred(y))


@score_rule(Tensor.masked_fill, torch.masked_fill)
def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    if not isinstance(x, LazyScores) or float(value) > HIDDEN:
        return torch.masked_fill(materialize_if_deferred(x), mask, float(value))
    nothing = torch.zeros(mask.shape, dtype=torch.float64)
    return add(x, nothing.masked_fill(mask, -math.inf))


@score_rule(torch.where)
def where(condition: Tensor, x: Any, y: Operand) -> Tensor:
    """where() as a mask: the scores where visible, a very small number elsewhere."""
    hides = isinstance(x, LazyScores) and (not isinstance(y, Tensor) or y.numel() == 1)
    if hides and float(y) <= HIDDEN:
        return masked_fill(x, ~condition, float(y))
    return torch.where(condition, materialize_if_deferred(x), materialize_if_deferred(y))


LAYOUTS = (
    Tensor.view, Tensor.reshape, torch.reshape, Tensor.unsqueeze, torch.unsqueeze, Tensor.squeeze, torch.squeeze,
    Tensor.flatten, torch.flatten, Tensor.unflatten, torch.unflatten,
)  # fmt: skip
"""Functions that may move heads into the batch, or next to it."""


def move_score_axes(function: Any, x: DeferredTensor, *args: Any, **kwargs: Any) -> Tensor:
    """Move axes; queries and keys keep theirs, or the numbers are computed."""
    shape = function(torch.empty(x.shape, device="meta"), *args, **kwargs).shape
    if len(shape) < 2 or shape[-2:] != x.shape[-2:]:
        numbers: Tensor = function(x.materialize_tensor(), *args, **kwargs)
        return numbers
    made: Tensor = type(x).from_score_terms(broadcast_score_terms(x.terms, shape[:-2]), shape)
    return made


for layout in LAYOUTS:
    SCORE_RULES[layout] = WEIGHT_RULES[layout] = partial(move_score_axes, layout)


@score_rule(torch.cat, torch.concat)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Concatenate learned sinks with the scores."""
    first, *rest = tensors
    last = dim in (-1, first.dim() - 1)
    if not (isinstance(first, LazyScores) and last) or any(
        isinstance(x, StreamTensor) for x in rest
    ):
        return torch.cat([convert_split_to_plain(materialize_if_deferred(x)) for x in tensors], dim)
    sinks = [] if first.terms.sink_scores is None else [first.terms.sink_scores]
    return make_lazy_scores(first.terms._replace(sink_scores=torch.cat([*sinks, *rest], dim=-1)))


@score_rule(torch.softmax, Tensor.softmax, F.softmax)
def softmax(x: LazyScores, dim: int | None = None, *_: object, **__: object) -> Tensor:
    if dim not in (-1, x.dim() - 1):
        return F.softmax(x.materialize_tensor(), dim)
    terms = x.terms
    made: Tensor = LazyWeights.from_score_terms(terms, terms.shape)
    return made


class LazyWeights(DeferredTensor):
    """The softmax of lazy scores; the columns of sinks may have been cut off."""

    rules = WEIGHT_RULES

    @property
    def are_sink_columns_dropped(self) -> bool:
        return self.shape[-1] < self.terms.shape[-1]

    def materialize_tensor(self) -> Tensor:
        """Compute the weights: split where P tends to a common row, so that a router's weights keep their digits."""
        terms = self.terms
        if do_score_rows_differ_by_query_only(terms):
            columns = torch.eye(terms.key.shape[-2], dtype=torch.float64)
            return compute_split_attention_output(
                terms, columns.expand(*terms.leading_shape, *columns.shape)
            )
        return torch.softmax(terms.compute_plain_scores(), dim=-1)[..., : self.shape[-1]]


@weight_rule(Tensor.__getitem__)
def drop_sink_columns(x: LazyWeights, index: Any) -> Tensor:
    """`weights[..., :-1]` drops the sinks."""
    lasting = isinstance(index, tuple) and index[:1] == (Ellipsis,) and len(index) == 2
    if lasting and isinstance(index[1], slice):
        keys = x.terms.key.shape[-2]
        if index[1].indices(x.shape[-1]) == (0, keys, 1):
            made: Tensor = LazyWeights.from_score_terms(x.terms, (*x.shape[:-1], keys))
            return made
    return x.materialize_tensor()[index]


def return_scores_unchanged(x: Tensor, *_: object, **__: object) -> Tensor:
    """Return the same tensor, also from casts: everything is float64 here, and dropout is off."""
    return x


UNCHANGED = (
    Tensor.contiguous, Tensor.to, Tensor.float, Tensor.double, Tensor.type_as, Tensor.type, Tensor.cpu, F.dropout,
    torch.dropout,
)  # fmt: skip

for harmless in UNCHANGED:
    SCORE_RULES[harmless] = WEIGHT_RULES[harmless] = return_scores_unchanged


@weight_rule(torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm, Tensor.bmm)
def mix_value_vectors_by_lazy_weights(weights: Tensor, values: Tensor) -> Tensor:
    """P (1c^T + V)."""
    if not isinstance(weights, LazyWeights) or isinstance(values, DeferredTensor):
        return torch.matmul(materialize_if_deferred(weights), materialize_if_deferred(values))
    terms = weights.terms
    if terms.sink_scores is None and do_score_rows_differ_by_query_only(terms):
        return compute_split_attention_output(terms, values)
    shares = torch.softmax(terms.compute_plain_scores(), dim=-1)
    if terms.sink_scores is None:
        return mix_value_vectors(shares, values, torch.zeros((), dtype=torch.float64))
    if not weights.are_sink_columns_dropped:
        return torch.matmul(shares, values)
    keys = terms.key.shape[-2]
    return mix_value_vectors(
        shares[..., :keys], values, shares[..., keys:].sum(dim=-1, keepdim=True)
    )
