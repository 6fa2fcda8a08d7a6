"""Metrics of each length's term, and of the terms together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from attncli.commands.paths.synthetic.output_by_path_length import (
    PathLengthDecomposition,
    Terms,
    output_share_by_inner_product,
    subtract_common_and_residual_parts,
    sum_path_length_terms,
)
from attncli.errors import InsufficientPrecision
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import ScaledArray
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import compute_log10_matrix_norm, frobenius_norm
from attncli.metrics import METRICS

NORM_SHARE, OUTPUT_SHARE = "path_norm_share", "path_output_share"
CUMULATIVE, ERROR = "path_norm_share_up_to", "reconstruction_error"
OF_TERMS = (NORM_SHARE, CUMULATIVE, OUTPUT_SHARE, ERROR)
SKIP_RESIDUAL, REST_RESIDUAL = "skip_residual", "rest_residual"
LOWER_BOUND, OUTPUT_RESIDUAL = "residual_lower_bound", "output_residual"
OF_THE_SKIP = (SKIP_RESIDUAL, REST_RESIDUAL, LOWER_BOUND, OUTPUT_RESIDUAL)


@dataclass(frozen=True)
class PathTermMeasurements:
    """One decomposition: metric → length → number, and how far the terms are from adding up to the output."""

    by_length: dict[str, dict[int, float]]
    completeness: float
    completeness_of_residual: float
    """Completeness of the residual alone, which may be far below the output; nan where there is
    none."""
    cancellation: float
    """Σ_k ‖T_k‖_F / ‖Y‖_F."""
    of_skip: dict[str, float]
    """Residuals of paths of length 0, of all others, and of both together; empty without skips."""


def measure_terms_by_path_length(
    decomposition: PathLengthDecomposition,
    metrics: Sequence[str],
    where: str,
    tolerance: float,
    advice: str = "",
) -> PathTermMeasurements:
    """All numbers of one decomposition, refused where its terms do not add up to the output."""
    rest = subtract_common_and_residual_parts(
        decomposition.output, sum_path_length_terms(decomposition.terms)
    )
    error = frobenius_norm_ratio(rest, decomposition.output)
    if not error <= tolerance:
        raise InsufficientPrecision(
            f"{where}: the terms add up to the output within {error:.1g} only, above {tolerance:.1g}: "
            f"the decomposition cannot be trusted and is not reported{advice}."
        )
    shares = frobenius_norm_shares_by_path_length(decomposition.terms)
    by_length = {
        NORM_SHARE: shares,
        CUMULATIVE: accumulate_shares_by_path_length(shares),
        OUTPUT_SHARE: {
            k: output_share_by_inner_product(term, decomposition.output)
            for k, term in decomposition.terms.items()
        },
        ERROR: reconstruction_errors_by_longest_path(decomposition, error),
    }
    for name in metrics:
        by_length[name] = {
            length: measure_term_of_path_length(name, term)
            for length, term in decomposition.terms.items()
        }
    of_residual = log10_frobenius_norm(rest.residual_to_token_mean) - log10_frobenius_norm(
        decomposition.output.residual_to_token_mean
    )
    cancellation = math.fsum(
        frobenius_norm_ratio(term, decomposition.output) for term in decomposition.terms.values()
    )
    return PathTermMeasurements(
        by_length,
        error,
        power_of_ten_or_nan(of_residual),
        cancellation,
        rank_one_residual_norms_of_paths(decomposition),
    )


def measure_term_of_path_length(name: str, term: SplitState) -> float:
    """Measure one term; paths that are exactly zero, past a block of zeros, have a state without
    directions."""
    value: float = math.nan if term.states.is_zero() else METRICS[name](term)
    return value


def rank_one_residual_norms_of_paths(decomposition: PathLengthDecomposition) -> dict[str, float]:
    """‖res(·)‖_F of paths of length 0, of all others, and of the output, over ‖Y‖_F; the first two differ by no more than the last."""
    if 0 not in decomposition.terms or len(decomposition.terms) == 1:
        return {}
    whole = log10_frobenius_norm(decomposition.output.states)
    rest = sum_path_length_terms(
        {length: term for length, term in decomposition.terms.items() if length}
    )
    parts = (decomposition.terms[0], rest, decomposition.output)
    skip, others, output = (
        power_of_ten_or_nan(log10_frobenius_norm(part.residual_to_token_mean) - whole)
        for part in parts
    )
    return dict(zip(OF_THE_SKIP, (skip, others, skip - others, output), strict=True))


def frobenius_norm_shares_by_path_length(terms: Terms) -> dict[int, float]:
    """‖T_k‖_F / Σ_j ‖T_j‖_F, from logarithms: a term may leave float range."""
    logs = {length: log10_frobenius_norm(term.states) for length, term in terms.items()}
    top = max(logs.values())
    sizes = {length: power_of_ten_or_nan(log - top) for length, log in logs.items()}
    whole = math.fsum(sizes.values())
    return {length: size / whole for length, size in sorted(sizes.items())}


def accumulate_shares_by_path_length(shares: dict[int, float]) -> dict[int, float]:
    lengths = sorted(shares)
    return {k: math.fsum(shares[j] for j in lengths if j <= k) for k in lengths}


def reconstruction_errors_by_longest_path(
    decomposition: PathLengthDecomposition, completeness: float
) -> dict[int, float]:
    """‖Y - Σ_(j≤k) T_j‖_F / ‖Y‖_F from the terms left out, which loses no digits where they are small."""
    lengths = sorted(decomposition.terms)
    errors = {lengths[-1]: completeness}
    for place, length in enumerate(lengths[:-1]):
        left_out = {k: decomposition.terms[k] for k in lengths[place + 1 :]}
        errors[length] = frobenius_norm_ratio(sum_path_length_terms(left_out), decomposition.output)
    return dict(sorted(errors.items()))


def frobenius_norm_ratio(part: SplitState, whole: SplitState) -> float:
    """‖part‖_F / ‖whole‖_F."""
    return power_of_ten_or_nan(
        log10_frobenius_norm(part.states) - log10_frobenius_norm(whole.states)
    )


def log10_frobenius_norm(array: ScaledArray) -> float:
    return compute_log10_matrix_norm(array, frobenius_norm)


def power_of_ten_or_nan(exponent: float) -> float:
    """10^exponent; 0 for -inf, and nan where neither number exists."""
    return math.nan if math.isnan(exponent) else float(10.0 ** min(exponent, 308.0))
