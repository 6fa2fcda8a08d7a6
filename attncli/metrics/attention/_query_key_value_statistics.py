"""Queries, keys and values of an attention: how token 0 differs from the other keys."""

from typing import TYPE_CHECKING, NamedTuple

from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor


class CosineSums(NamedTuple):
    """Sums over queries of cosines, and how many there are."""

    total: "Tensor"
    """[batch, head]"""
    pairs: "Tensor"
    """[batch or 1, 1]"""

    def compute_mean_cosine(self) -> "Tensor":
        found: Tensor = self.total / self.pairs
        return found


class OperandStatistics:
    """Statistics of one attention, added up strip by strip; a head's keys are those of its group (h // heads per key)."""

    def __init__(self, rows: MapStripRows) -> None:
        assert rows.sides is not None
        _, key, value = rows.sides
        self.heads = rows.weights.shape[1]
        self.key_sizes, self.value_sizes = (
            self.repeat_grouped_heads(side.norm(dim=-1)) for side in (key, value)
        )
        """[batch, head, key]: ‖k_j‖ and ‖v_j‖."""
        self.units = self.repeat_grouped_heads(scale_to_unit_vectors(key))
        zero = self.key_sizes.new_zeros(())
        self.first = self.every = CosineSums(zero, zero)
        """cos(q_i, k_0) of the queries that see token 0; and their mean over all keys that a query sees."""

    def repeat_grouped_heads(self, grouped: "Tensor") -> "Tensor":
        """[batch, head, …] of grouped keys or values."""
        return grouped.double().repeat_interleave(self.heads // grouped.shape[1], dim=1)

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        assert rows.sides is not None
        query = scale_to_unit_vectors(rows.sides[0]).double()
        around = (rows.sum_over_visible_keys(self.units) * query).sum(dim=-1)
        around /= rows.keys_per_query.double().clamp_min(1.0)
        self.every = accumulate_cosine_sums(
            self.every, around, query.new_ones(rows.keys_per_query.shape)
        )
        on_first = (query * self.units[..., :1, :]).sum(dim=-1)
        self.first = accumulate_cosine_sums(self.first, on_first, rows.sees_first_token.double())


def accumulate_cosine_sums(sums: CosineSums, cosines: "Tensor", counted: "Tensor") -> CosineSums:
    return CosineSums(
        sums.total + (cosines * counted).sum(dim=-1), sums.pairs + counted.sum(dim=-1)
    )


def scale_to_unit_vectors(vectors: "Tensor") -> "Tensor":
    """Scale to unit vectors; zero stays zero."""
    sizes = vectors.norm(dim=-1, keepdim=True)
    found: Tensor = vectors / sizes.masked_fill(sizes == 0.0, 1.0)
    return found
