"""The terms of attention scores, before the scores are computed."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from attncli.forward_argument_types import Output
from attncli.tensor_subclasses.residual_split.split_tensor import convert_split_to_plain

HIDDEN = -1e30
"""Scores below this are masked."""


class ScoreTerms(NamedTuple):
    """scale · query key^T + bias, with extra columns that are no keys, up to a constant along each row."""

    query: Tensor
    """[..., query, width], split or plain."""
    key: Tensor
    """[..., key, width], likewise."""
    scale: float = 1.0
    bias: Tensor | None = None
    """[..., query or 1, key]: positions and masks."""
    shift: Tensor | None = None
    """[..., query or 1, 1]: constant along each row, so that no softmax sees it."""
    sink_scores: Tensor | None = None
    """[..., query or 1, columns]: the scores of learned sinks."""

    @property
    def leading_shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(tuple(self.query.shape[:-2]), tuple(self.key.shape[:-2]))

    @property
    def sink_column_count(self) -> int:
        return 0 if self.sink_scores is None else self.sink_scores.shape[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        return (
            *self.leading_shape,
            self.query.shape[-2],
            self.key.shape[-2] + self.sink_column_count,
        )

    def scale_score_terms(self, factor: float) -> "ScoreTerms":
        bias, shift, sinks = (
            None if part is None else part * factor
            for part in (self.bias, self.shift, self.sink_scores)
        )
        return self._replace(scale=self.scale * factor, bias=bias, shift=shift, sink_scores=sinks)

    def compute_plain_scores(self) -> Tensor:
        """The scores as plain numbers, where query-specific parts may vanish."""
        scores = (
            torch.matmul(
                convert_split_to_plain(self.query),
                convert_split_to_plain(self.key).transpose(-1, -2),
            )
            * self.scale
        )
        if self.bias is not None:
            scores = scores + self.bias
        if self.sink_scores is not None:
            sinks = self.sink_scores.expand(*scores.shape[:-1], self.sink_column_count)
            scores = torch.cat([scores, sinks], dim=-1)
        return scores if self.shift is None else scores + self.shift


def broadcast_score_terms(terms: ScoreTerms, lead: Sequence[int]) -> ScoreTerms:
    """Broadcast the terms to other leading axes."""

    def broadcast_score_term(part: Tensor | None) -> Output:
        if part is None:
            return None
        return part.expand(*terms.leading_shape, *part.shape[-2:]).reshape(*lead, *part.shape[-2:])

    return terms._replace(
        query=broadcast_score_term(terms.query),
        key=broadcast_score_term(terms.key),
        bias=broadcast_score_term(terms.bias),
        shift=broadcast_score_term(terms.shift),
        sink_scores=broadcast_score_term(terms.sink_scores),
    )


def make_terms_of_computed_scores(scores: Tensor) -> ScoreTerms:
    """Terms of scores that are already computed: products of themselves with one key for each column."""
    return ScoreTerms(scores, torch.eye(scores.shape[-1], dtype=torch.float64))
