"""Find the inputs that make one trained head show requested queries and keys, and compute the head's scores."""

from typing import NamedTuple

import numpy as np

from attncli.errors import InputError
from attncli.head_weights.head_projections import Array
from attncli.head_weights.qk_ov_products import EXTREME
from attncli.head_weights.trained_head import Head
from attncli.maths.dtype_rounding import Floats, round_to_dtype
from attncli.maths.rotary_embedding import rotate_by_positions, undo_rotation_by_positions

SINGULAR = 1e12
"""Condition number from which [W_Q W_K] counts as singular: float64 would leave four digits."""


class ProjectionInverse(NamedTuple):
    """[W_Q W_K]^+, for the weights as the dtype rounds them."""

    matrix: Array
    """[2 d, hidden]"""
    condition: float
    """Largest over smallest singular value: how much rounding errors can grow."""


def invert_query_key_projections(head: Head, dtype: str) -> ProjectionInverse:
    """X [W_Q W_K] = [Q K] is solved by X = [Q K] [W_Q W_K]^+ where the 2d columns are independent."""
    both = np.concatenate([round_to_dtype(part, dtype) for part in (head.w_q, head.w_k)], axis=1)
    hidden, columns = both.shape
    left, values, right = np.linalg.svd(both.astype(np.float64), full_matrices=False)
    if hidden < columns or values[-1] * SINGULAR < values[0]:
        raise InputError(
            f"the head cannot show every pattern by its input alone: W_Q and W_K have {columns} columns, of which "
            f"{int((values * SINGULAR >= values[0]).sum())} are independent at hidden size {hidden}."
        )
    return ProjectionInverse((right.T / values) @ left.T, float(values[0] / values[-1]))


def solve_projections_for_scores(head: Head, queries: Array, keys: Array) -> Array:
    """[token, 2 d]: the projections x must have, so that the head's logits are queries keys^T.

    The scale is shared between both, rotations are undone, biases are subtracted.
    """
    root = np.sqrt(head.scale)
    q, k = queries / root, keys / root
    if head.rotary is not None:
        q, k = (
            undo_rotation_by_positions(q, head.rotary),
            undo_rotation_by_positions(k, head.rotary),
        )
    return np.concatenate([q, k], axis=1)


def solve_inputs_for_projections(
    head: Head, projections: Array, pseudo: ProjectionInverse, dtype: str
) -> Floats:
    """The least x with these projections, rounded; queries and keys are scaled against each other so that it is small."""
    d = head.query_key_width
    biases = np.concatenate([round_to_dtype(part, dtype) for part in (head.b_q, head.b_k)])
    parts = [projections[:, part] @ pseudo.matrix[part] for part in (slice(0, d), slice(d, None))]
    largest = [float(np.abs(part).max(initial=0.0)) for part in parts]
    if not all(size == 0.0 or 1.0 / EXTREME < size < EXTREME for size in largest):
        raise InputError(
            f"head {head.description['layer']}.{head.description['head']}: the inputs for wanted queries and keys leave float range, as "
            "its weights are too large or too small."
        )
    sizes = [float(np.linalg.norm(part)) for part in parts]
    balance = np.sqrt(sizes[1] / sizes[0]) if all(sizes) else 1.0
    factors = np.repeat([balance, 1.0 / balance], d)
    return round_to_dtype((projections * factors - biases) @ pseudo.matrix, dtype)


def project_inputs_to_queries_and_keys(head: Head, x: Floats, dtype: str) -> tuple[Floats, Floats]:
    """Queries and keys as the model computes them: a linear layer rounds once, then positions turn."""
    results = []
    for weights, bias in ((head.w_q, head.b_q), (head.w_k, head.b_k)):
        made = round_to_dtype(
            x @ round_to_dtype(weights, dtype) + round_to_dtype(bias, dtype), dtype
        )
        results.append(
            made if head.rotary is None else rotate_by_positions(made, head.rotary, dtype)
        )
    return results[0], results[1]


def compute_largest_input_vector_norm(head: Head, x: Floats) -> float | None:
    """Largest ‖z‖ / √hidden of the least standardised tokens z that the norm's gain and bias carry to such projections.

    Up to 1 the norm before the head can put them out: what is missing to its fixed length goes where W_Q and W_K do
    not look. None without a known norm, or where the gain is zero somewhere that matters.
    """
    norm = head.norm
    if norm is None:
        return None
    both = np.concatenate([head.w_q, head.w_k], axis=1)
    columns, targets = norm.gain[:, None] * both, (x - norm.bias) @ both
    if norm.centred:  # LayerNorm's z has mean zero
        columns = np.concatenate([columns, np.ones((len(columns), 1))], axis=1)
        targets = np.concatenate([targets, np.zeros((len(targets), 1))], axis=1)
    if columns.shape[1] >= len(columns) or np.linalg.cond(columns) > SINGULAR:
        return None
    least = targets @ np.linalg.pinv(columns)
    return float(np.linalg.norm(least, axis=1).max() / np.sqrt(len(columns)))
