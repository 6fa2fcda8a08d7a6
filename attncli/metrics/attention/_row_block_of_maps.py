"""A strip of rows of a layer's maps, with what several metrics need of it computed once."""

from collections.abc import Callable, Sequence
from functools import cached_property
from math import nan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TINY = 2e-38
"""The least weight that adds to an entropy, a normal float32: 2e-38 · ln 2e-38 is no number that could be seen."""

HIDDEN = 1000.0
"""Scores this far below the best of their row have the weight 0, in float64 too, and may be infinite."""

NEVER_SEEN = -1e30
"""Scores of hidden keys: no model computes such a score, only a mask does."""

LEAST = {8: 3e-308, 4: TINY}
"""The least normal number of a float of so many bytes; what is smaller has no digits."""

SMALL = 1e-3
"""Of a query: weights below count as small."""

MultiplyByGram = Callable[["Tensor", Sequence[int]], "Tensor"]
"""Vectors [map, key, vector] and which maps these are for, counted over batch and heads → A^T A v in float64."""

CACHED = 2**18
"""Numbers that are processed at a time, so that they stay in the processor's cache."""


class MapStripRows:
    """Rows `first_query` … of maps of `queries` × `keys`; columns from `first_key` on, those left out being hidden."""

    multiply_by_gram: "MultiplyByGram | None" = None
    """Products of the whole maps' A^T A where their weights are not kept."""

    def __init__(
        self,
        weights: "Tensor",
        first_query: int = 0,
        first_key: int = 0,
        queries: int | None = None,
        keys: int | None = None,
        visible: "Tensor | None" = None,
        period: int | None = None,
        scores: "Tensor | None" = None,
        sides: "tuple[Tensor, Tensor, Tensor] | None" = None,
        applied: "Tensor | None" = None,
        ids: "Tensor | None" = None,
    ) -> None:
        self.weights = weights
        """[batch, head, query, key]"""
        self.first_query = first_query
        self.first_key = first_key
        self.queries = weights.shape[-2] if queries is None else queries
        self.keys = weights.shape[-1] if keys is None else keys
        self.visible = visible
        """[batch or 1, 1, query, key] bool; None: every key."""
        self.period = period
        """After how many tokens the text repeats itself; None: never."""
        self.scores = scores
        """[batch, head, query, key]: what the softmax was given; None: not known."""
        self.ids = ids
        """[token]: ids of a generated text; None: the user's own text."""
        self.sides = sides
        """These queries, and all keys and values, [batch, head or group, token, feature]; None: not known."""
        self.applied = applied
        """[batch, head, query, key]: the signed map of a linear layer, of which `weights` are shares of the sizes."""

    @property
    def rows_with_signed_weights(self) -> "MapStripRows":
        """The signed map of a linear layer; the same rows where there was a softmax."""
        if self.applied is None:
            return self
        where = (self.first_query, self.first_key, self.queries, self.keys)
        return MapStripRows(self.applied, *where, self.visible, self.period)

    def explain_missing_query_key_value(self) -> str:
        """Explain why this strip lacks queries, keys and values; empty where it has them."""
        if self.sides is None:
            return "its queries and keys were not seen"
        if any(self.weights.shape[1] % side.shape[1] for side in self.sides[1:]):
            return "heads do not share keys evenly: which head has which is not understood"
        return ""

    @property
    def row_count(self) -> int:
        """The number of rows in this strip."""
        return self.weights.shape[-2]

    @cached_property
    def keys_per_query(self) -> "Tensor":
        """[batch or 1, 1, query]: how many keys each query sees."""
        if self.visible is None:
            return self.weights.new_full((1, 1, self.row_count), self.keys)
        return self.visible.sum(dim=-1).to(self.weights.dtype)

    @property
    def sees_first_token(self) -> "Tensor":
        """[batch or 1, 1, query] bool: whether a query sees token 0."""
        if self.first_key > 0:
            return self.keys_per_query < 0
        return self.keys_per_query > 0 if self.visible is None else self.visible[..., 0]

    def sum_over_visible_keys(self, vectors: "Tensor") -> "Tensor":
        """[batch, head, query, feature]: Σ_j v_j of vectors [batch, head, key, feature] over the keys that a query sees."""
        here = vectors[..., self.first_key : self.first_key + self.weights.shape[-1], :]
        if self.visible is None:
            return here.sum(dim=-2, keepdim=True)
        return self.visible.to(here.dtype) @ here

    @cached_property
    def sums_of_absolute_weights(self) -> "Tensor":
        """[batch, head, query]: Σ_j |A_ij|, of the signed map where there is one."""
        return self.rows_with_signed_weights.weights.abs().sum(dim=-1)

    @cached_property
    def sums_of_negative_weights(self) -> "Tensor":
        """[batch, head, query]: Σ_j max(-A_ij, 0), of the signed map where there is one."""
        return -self.rows_with_signed_weights.weights.clamp_max(0.0).sum(dim=-1)

    @cached_property
    def row_sums(self) -> "Tensor":
        """[batch, head, query]: sums of rows; one, or less with a learned sink."""
        return self.weights.sum(dim=-1)

    @cached_property
    def largest_weights(self) -> "Tensor":
        """[batch, head, query]: max_j A_ij."""
        return self.weights.amax(dim=-1)

    @cached_property
    def small_weight_counts(self) -> "Tensor":
        """[batch, head, query]: how many of the visible keys get a small weight."""
        small = (self.weights < SMALL).sum(dim=-1)
        return (
            small
            if self.visible is None
            else small - (self.weights.shape[-1] - self.keys_per_query)
        )

    @cached_property
    def weights_on_first_token(self) -> "Tensor":
        """[batch, head, query]: A_i0."""
        return self.weights[..., 0] if self.first_key == 0 else self.weights.new_zeros(())

    @cached_property
    def weighted_distances(self) -> "Tensor":
        """[batch, head, query]: Σ_j A_ij |i - j|."""
        return mean_attention_distances(self.weights, self.list_query_positions(), self.first_key)

    def sum_received_mass(self) -> tuple["Tensor", "Tensor"]:
        """Σ_i A_ij [batch, head, key of the strip], and how many queries see each [batch or 1, 1, key]."""
        visible = self.visible
        seen = self.weights.new_full((), self.row_count) if visible is None else visible.sum(dim=-2)
        return self.weights.sum(dim=-2).double(), seen.double()

    @property
    def column_sums_of_squares(self) -> "Tensor":
        """Σ_i A_ij² [batch, head, key of the strip]."""
        return self.weights.square().sum(dim=-2).double()

    def sum_weights_over_diagonals(self) -> tuple["Tensor", "Tensor", int]:
        """Sums of weights [batch, head, offset] and of visible pairs [batch or 1, 1, offset]; the first offset."""
        size, width = self.weights.shape[-2:]
        visible = self.visible
        if visible is None:
            visible = self.weights.new_ones((1, 1, size, width))
        pairs = sum_diagonals(visible.to(self.weights.dtype))
        return sum_diagonals(self.weights), pairs, self.first_query - (self.first_key + width - 1)

    @cached_property
    def entropy(self) -> "Tensor":
        """[batch, head, query]: -Σ_j A_ij ln A_ij in nats."""
        weights = self.weights.flatten(0, 2)
        scores = None if self.scores is None else self.scores.flatten(0, 2)
        result: Tensor = weights.new_empty(len(weights))
        best = weights.new_empty(len(weights))
        step = max(1, CACHED // weights.shape[-1])
        for start in range(0, len(weights), step):
            part = slice(start, start + step)
            if scores is None:
                own = weights[part]
                result[part] = 0.0 - own.clamp_min(TINY).log_().mul_(own).sum(dim=-1)
            else:
                best[part] = scores[part].amax(dim=-1)
                below = scores[part] - best[part, None]
                result[part] = entropy_from_logit_differences(weights[part], below)
        if scores is not None:
            self.maximum_scores = best.view(self.weights.shape[:-1])
        return result.view(self.weights.shape[:-1])

    @cached_property
    def maximum_scores(self) -> "Tensor":
        """[batch, head, query]: the largest score; a mask's number where the query sees nothing."""
        assert self.scores is not None
        return self.scores.amax(dim=-1)

    @property
    def largest_scores(self) -> "Tensor":
        """[batch, head, query]: the largest score of a key that the query sees; nan where it sees none."""
        found: Tensor = self.maximum_scores.masked_fill(self.maximum_scores < NEVER_SEEN, nan)
        return found

    @cached_property
    def sums_of_squares(self) -> "Tensor":
        """[batch, head, query]: Σ_j A_ij²."""
        norms: Tensor = self.weights.norm(dim=-1)
        return norms.square_()

    @cached_property
    def centred_sums_of_squares(self) -> "Tensor":
        """[batch, head, query]: Σ_j (A_ij - 1/n)² over all n keys of the map, also those left out."""
        left_out = (self.keys - self.weights.shape[-1]) / self.keys**2
        norms: Tensor = (self.weights - 1.0 / self.keys).norm(dim=-1)
        return norms.square_() + left_out

    @cached_property
    def logits(self) -> "Tensor":
        """[batch, head, query, key]: ln A_ij less its mean over the keys that the query sees; 0 where it sees none.

        A row's own constant is lost in the softmax, so these are the scores too, less their mean. Where there are none,
        a map's weights are all that is known; `cut_off` tells of those that have become 0.
        """
        if self.scores is not None and self.are_all_visible_scores_known:
            shown = self.zero_hidden_keys(self.scores)
        else:
            shown = self.zero_hidden_keys(
                self.weights.clamp_min(smallest_weight_of_dtype(self.weights)).log_()
            )
        if self.visible is None:
            return shown - shown.mean(dim=-1, keepdim=True)
        mean = shown.sum(dim=-1) / self.keys_per_query.clamp_min(1)
        return self.zero_hidden_keys(shown - mean[..., None])

    @cached_property
    def are_all_visible_scores_known(self) -> bool:
        """Whether the scores of all visible keys are known; a mask's numbers do not count."""
        return (
            self.scores is not None
            and float(self.zero_hidden_keys(self.scores).amin()) > NEVER_SEEN
        )

    @cached_property
    def has_unknown_logits(self) -> bool:
        """Whether some weights are so small that their logits are unknown."""
        if self.are_all_visible_scores_known:
            return False
        small = self.weights < smallest_weight_of_dtype(self.weights)
        return bool((small if self.visible is None else small & self.visible).any())

    def zero_hidden_keys(self, values: "Tensor") -> "Tensor":
        """[batch, head, query, key]: 0 where the key is hidden."""
        return values if self.visible is None else values.masked_fill(~self.visible, 0.0)

    def read_weights_at_offset(self, offset: int) -> "Tensor":
        """[batch, head, query]: A_{i, i - offset}; nan where there is no such key or it is hidden."""
        result = self.weights.new_full(self.weights.shape[:-1], nan)
        shift = self.first_query - offset - self.first_key
        start, stop = max(0, -shift), min(self.row_count, self.weights.shape[-1] - shift)
        if start >= stop:
            return result
        found = self.weights.diagonal(offset=shift, dim1=-2, dim2=-1)
        if self.visible is not None:
            hidden = ~self.visible.diagonal(offset=shift, dim1=-2, dim2=-1)
            found = found.masked_fill(hidden, nan)
        result[..., start:stop] = found
        return result

    def list_query_positions(self) -> "Tensor":
        """[query]: the rows' indices in the map."""
        ones = self.weights.new_ones(self.row_count)
        return ones.cumsum(dim=0) + (self.first_query - 1)

    def mask_rows_before_repeated_token(self, values: "Tensor") -> "Tensor":
        """The same values of the rows, nan for those whose token has not come a period before."""
        if self.period is None:
            return values.new_full(values.shape, nan)
        return values.masked_fill(self.list_query_positions() < self.period, nan)


def sum_diagonals(values: "Tensor") -> "Tensor":
    """Sums [batch, head, offset] of a strip's values over its diagonals, that of the last key in the first row first.

    With the keys turned round and each row moved right by its number, a diagonal is a column: that is a change of the
    row length of the same memory, by one.
    """
    size, width = values.shape[-2:]
    wide = values.new_zeros((*values.shape[:-1], width + size))
    wide[..., :width] = values.flip(-1)
    moved = wide.flatten(-2)[..., : size * (width + size - 1)]
    return moved.reshape(*values.shape[:-2], size, width + size - 1).double().sum(dim=-2)


def smallest_weight_of_dtype(weights: "Tensor") -> float:
    return LEAST.get(weights.element_size(), TINY)


def entropy_from_logit_differences(weights: "Tensor", below: "Tensor") -> "Tensor":
    """[row]: the entropy of each row [row, key], where ln A_ij = (s_ij - max s_i) + ln max A_i: one logarithm for each row instead of each number.

    `below`: s_ij - max s_i, which is overwritten.
    """
    far = below.clamp_min_(-HIDDEN).mul_(weights).sum(dim=-1)
    largest = weights.amax(dim=-1).clamp_min_(TINY)  # a learned sink may take all
    return 0.0 - far - largest.log_().mul_(weights.sum(dim=-1))


BLOCK = 128
"""Rows of which the keys between them are gone through one by one."""


def mean_attention_distances(weights: "Tensor", place: "Tensor", first_key: int) -> "Tensor":
    """[batch, head, query]: Σ_j A_ij |i - j| of the queries at these places, of keys from the first one on."""
    result = weights.new_empty(weights.shape[:-1])
    key = weights.new_ones(weights.shape[-1]).cumsum(dim=0) + (first_key - 1)
    for start in range(0, len(place), BLOCK):
        block = slice(start, start + BLOCK)
        result[..., block] = sum_distances_past_block(weights[..., block, :], place[block], key)
    return result


def sum_distances_past_block(weights: "Tensor", place: "Tensor", key: "Tensor") -> "Tensor":
    """Beyond the block, |i - j| is the way to its edge, the same for all keys there, and the way from the edge to j."""
    first, last = place[0], place[-1]
    past, future = key < first, key > last
    beyond = weights @ (past * (first - key) + future * (key - last))
    ahead = weights @ future.to(key.dtype) if bool(future.any()) else 0.0
    start, stop = int(past.sum()), int((~future).sum())
    near = weights[..., start:stop]
    within = (near * (place[:, None] - key[start:stop]).abs()).sum(dim=-1)
    behind = weights.sum(dim=-1) - near.sum(dim=-1) - ahead
    return beyond + within + behind * (place - first) + ahead * (last - place)
