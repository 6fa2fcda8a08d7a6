"""The constant-row matrix nearest to M in the composite norm √(‖·‖_1 ‖·‖_∞): optimal, with a proof.

Both norms are convex in the centre x, their product is not. But the pairs (‖M - 1x^T‖_1, ‖M - 1x^T‖_∞) that some x
reaches, or stays below, form a convex set, and along a line the product is least at an end. So the set is enclosed
between corners that are reached and lines that it cannot cross, and refined where a crossing of two lines would still
beat the best corner. Each line comes from a linear programme, min u‖·‖_1 + v‖·‖_∞. Its dual needs no trust in the
solver: for any weights p of the columns and q of the rows that sum to u and v,

    Σ_j min_x Σ_i (p_j + q_i) |M_ij - x|    (a weighted median in each column)

is below u‖·‖_1 + v‖·‖_∞ for every centre.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array
from attncli.maths.matrices.nearest_row_linear_programme import (
    NormLinearProgramme,
    bound_weighted_matrix_norms_below,
)

ENOUGH = 1e-10
"""How far, relatively, the product of the norms may be above what is proved to be its least value."""

MOST_PROGRAMMES = 60


class WeightedBound(NamedTuple):
    """No centre has u · columns + v · rows below the level."""

    u: float
    v: float
    level: float


class NormCorner(NamedTuple):
    """‖·‖_1 and ‖·‖_∞ that some centre reaches, or that bound what any can."""

    columns: float
    rows: float

    @property
    def norm_product(self) -> float:
        return self.columns * self.rows


class NearestConstantRow(NamedTuple):
    """A centre, and bounds on how far it is from the optimum."""

    centre: Array
    gap: float
    """ln of the composite norm there, less what it is proved to be at least."""


def find_nearest_constant_row(matrix: Array) -> NearestConstantRow:
    """Find the centre [feature]: the best of the corners, refined until no intersection of lines promises a better
    one."""
    programme = NormLinearProgramme(matrix)
    lines = [
        WeightedBound(1.0, 0.0, sum_deviations_from_column_medians(matrix)),
        WeightedBound(0.0, 1.0, bound_infinity_norm_from_below(matrix)),
    ]
    best, centre = NormCorner(math.inf, math.inf), np.zeros(matrix.shape[1])
    for _ in range(MOST_PROGRAMMES):
        lowest = find_corner_with_smallest_norm_product(lines)
        if lowest.norm_product >= best.norm_product * (1.0 - ENOUGH):
            break
        u, v = 1.0 / lowest.columns, 1.0 / lowest.rows
        found = programme.minimise_weighted_norms(u, v)
        reached = NormCorner(*programme.compute_matrix_norms_about_centre(found.centre))
        if reached.norm_product < best.norm_product:
            best, centre = reached, found.centre
        lines.append(
            WeightedBound(
                u, v, bound_weighted_matrix_norms_below(matrix, found.columns, found.rows)
            )
        )
    return NearestConstantRow(
        centre,
        compute_log_ratio_to_lower_bound(best, find_corner_with_smallest_norm_product(lines)),
    )


def compute_log_ratio_to_lower_bound(best: NormCorner, lowest: NormCorner) -> float:
    return max(0.0, math.log(best.norm_product / lowest.norm_product) / 2.0)


def sum_deviations_from_column_medians(matrix: Array) -> float:
    """The smallest ‖·‖_1: every column about its median."""
    return float(np.abs(matrix - np.median(matrix, axis=0)).sum(axis=0).max())


def bound_infinity_norm_from_below(matrix: Array) -> float:
    """A lower bound on ‖·‖_∞: half of the distance between the first row and the row farthest from it."""
    return float(np.abs(matrix - matrix[0]).sum(axis=1).max()) / 2.0


def find_corner_with_smallest_norm_product(lines: list[WeightedBound]) -> NormCorner:
    """The corner with the smallest product, of the region above every line."""
    edge = find_lower_envelope_of_lines(lines)
    return min(
        (intersect_lines(*two) for two in pairwise(edge)), key=lambda corner: corner.norm_product
    )


def find_lower_envelope_of_lines(lines: list[WeightedBound]) -> list[WeightedBound]:
    """The lines that bound the region, from the steep one at its left to the flat one below it."""
    steep_first = sorted(lines, key=lambda line: (math.atan2(line.v, line.u), -line.level))
    edge: list[WeightedBound] = []
    for line in steep_first:
        while len(edge) > 1 and not is_norm_corner_below_line(
            intersect_lines(edge[-2], line), edge[-1]
        ):
            edge.pop()
        edge.append(line)
    return edge


def is_norm_corner_below_line(corner: NormCorner, line: WeightedBound) -> bool:
    return line.u * corner.columns + line.v * corner.rows < line.level


def intersect_lines(one: WeightedBound, other: WeightedBound) -> NormCorner:
    determinant = one.u * other.v - one.v * other.u
    return NormCorner(
        (one.level * other.v - one.v * other.level) / determinant,
        (one.u * other.level - one.level * other.u) / determinant,
    )
