"""Minimise u ‖M - 1x^T‖_1 + v ‖M - 1x^T‖_∞ over x by a linear programme that holds only active constraints.

Written out it has a variable for every number of M. But few rows are as long as the longest, and in a column the sum
Σ_i |M_ij - x_j| is a function of one number, of which a few tangents matter. Rows and tangents that a solution breaks
are added until none is broken.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, vstack

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array

BROKEN = 1e-11
"""Relatively: what is broken by less is rounding."""

SOME_ROWS = 8
"""It begins with the longest rows, one in so many, and goes on with as many of those that are broken most."""

MOST_ROUNDS = 200


class ProgrammeSolution(NamedTuple):
    """A centre, and the weights of columns and rows that prove it to be the best."""

    centre: Array
    columns: Array
    rows: Array


class NormLinearProgramme:
    """A linear programme that keeps its rows and tangents for the next pair of weights."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        self.active: list[int] = []
        self.tangents: list[tuple[int, float, float]] = []
        """Column, slope, and value at 0."""
        middle = (matrix.max(axis=0) + matrix.min(axis=0)) / 2.0
        for centre in (np.median(matrix, axis=0), matrix.mean(axis=0), middle):
            self.add_norm_constraints(
                centre,
                np.arange(matrix.shape[1]),
                self.sum_deviations_per_row(centre).argsort()[::-1],
            )

    def sum_deviations_per_row(self, centre: Array) -> Array:
        found: Array = np.abs(self.matrix - centre).sum(axis=1)
        return found

    def sum_deviations_per_column(self, centre: Array) -> Array:
        found: Array = np.abs(self.matrix - centre).sum(axis=0)
        return found

    def compute_matrix_norms_about_centre(self, centre: Array) -> tuple[float, float]:
        return float(self.sum_deviations_per_column(centre).max()), float(
            self.sum_deviations_per_row(centre).max()
        )

    def add_norm_constraints(
        self, centre: Array, columns: NDArray[np.intp], rows: NDArray[np.intp]
    ) -> None:
        """Add tangents of these columns at the centre, and the first of these rows that are not yet constraints."""
        signs = np.sign(centre - self.matrix).sum(axis=0)
        values = self.sum_deviations_per_column(centre) - signs * centre
        self.tangents += [(int(j), float(signs[j]), float(values[j])) for j in columns]
        new = [int(row) for row in rows if int(row) not in self.active]
        self.active += new[: max(2, len(self.matrix) // SOME_ROWS)]

    def minimise_weighted_norms(self, u: float, v: float) -> ProgrammeSolution:
        """Solve to within rounding, or as near as the solver comes."""
        for _ in range(MOST_ROUNDS):
            centre, a, b, solution = self.solve_with_current_constraints(u, v)
            sums, lengths = (
                self.sum_deviations_per_column(centre),
                self.sum_deviations_per_row(centre),
            )
            columns = np.flatnonzero(sums > a * (1.0 + BROKEN))
            rows = np.flatnonzero(lengths > b * (1.0 + BROKEN))
            rows = rows[lengths[rows].argsort()[::-1]]
            before = len(self.active), len(self.tangents)
            reached = u * sums.max() + v * lengths.max()
            if reached <= (u * a + v * b) * (1.0 + BROKEN):
                break
            self.add_norm_constraints(centre, columns, rows)
            if before == (len(self.active), len(self.tangents)):
                break
        return solution

    def solve_with_current_constraints(
        self, u: float, v: float
    ) -> tuple[Array, float, float, ProgrammeSolution]:
        """Solve with the present rows and tangents."""
        n, d = self.matrix.shape
        active = len(self.active)
        left, right = self.build_constraint_matrix()
        cost = np.concatenate([np.zeros(d), [u, v], np.zeros(active * d)])
        bounds = [(None, None)] * d + [(0, None)] * (2 + active * d)
        result = linprog(cost, left, right, bounds=bounds, method="highs-ipm")
        duals = -result.ineqlin.marginals
        columns, rows = np.zeros(d), np.zeros(n)
        np.add.at(columns, [j for j, _, _ in self.tangents], duals[: len(self.tangents)])
        rows[self.active] = duals[len(self.tangents) : len(self.tangents) + active]
        x = result.x
        return (
            x[:d],
            float(x[d]),
            float(x[d + 1]),
            ProgrammeSolution(
                x[:d], normalise_dual_weights(columns, u), normalise_dual_weights(rows, v)
            ),
        )

    def build_constraint_matrix(self) -> tuple[csr_array, Array]:
        """In the order: tangents, lengths of rows, M - x ≤ e, x - M ≤ e."""
        d, active = self.matrix.shape[1], len(self.active)
        columns, slopes, values = (np.array(part) for part in zip(*self.tangents, strict=True))
        number = np.arange(len(columns))
        tangents = coo_array(
            (
                np.concatenate([slopes, -np.ones(len(columns))]),
                (np.tile(number, 2), np.concatenate([columns, np.full(len(columns), d)])),
            ),
            shape=(len(columns), d + 2 + active * d),
        )
        errors = np.arange(active * d)
        each = np.ones(active * d)
        row_of, column_of = errors // d, errors % d
        lengths = coo_array(
            (
                np.concatenate([each, -np.ones(active)]),
                (
                    np.concatenate([row_of, np.arange(active)]),
                    np.concatenate([d + 2 + errors, np.full(active, d + 1)]),
                ),
            ),
            shape=(active, d + 2 + active * d),
        )
        parts = [tangents, lengths]
        for sign in (-1.0, 1.0):
            parts.append(
                coo_array(
                    (
                        np.concatenate([sign * each, -each]),
                        (np.tile(errors, 2), np.concatenate([column_of, d + 2 + errors])),
                    ),
                    shape=(active * d, d + 2 + active * d),
                )
            )
        own = self.matrix[self.active].ravel()
        right = np.concatenate([-values, np.zeros(active), -own, own])
        return vstack(parts).tocsr(), right


def normalise_dual_weights(weights: Array, total: float) -> Array:
    """Make weights nonnegative with the given sum, as a proof needs."""
    positive = np.maximum(weights, 0.0)
    whole = float(positive.sum())
    return positive * (total / whole) if whole else np.full(len(weights), total / len(weights))


def bound_weighted_matrix_norms_below(matrix: Array, columns: Array, rows: Array) -> float:
    """Σ_j min_x Σ_i (p_j + q_i) |M_ij - x|: a lower bound on the weighted norms of every centre."""
    weights = rows[:, None] + columns
    order = matrix.argsort(axis=0)
    ordered = np.take_along_axis(weights, order, axis=0).cumsum(axis=0)
    middle = (ordered < ordered[-1] / 2.0).sum(axis=0)
    at = np.take_along_axis(order, middle[None], axis=0)
    centre = np.take_along_axis(matrix, at, axis=0)
    return float((weights * np.abs(matrix - centre)).sum())
