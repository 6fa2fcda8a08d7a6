"""Keys on a line: modules of width 1 that separate all rows, one slope for each row, verified after rounding."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import (
    Fit,
    FitRequest,
    FittedModule,
    MethodNotApplicable,
    make_fitted_module,
)
from attncli.fits._fitting_method_registry import method
from attncli.fits._newton_query_optimisation import (
    SAFETY,
    RowQueryProblem,
    evaluate_losses_at_queries,
    find_rows_meeting_fit_limits,
    list_nonzero_entries_of_rows,
)
from attncli.fits._verify_fit import FitEvidence, iter_blocks_of_map_rows, measure_fit
from attncli.maths.dtype_rounding import round_to_dtype
from attncli.maths.head_capacity.head_width_one.logit_constraints import (
    Tolerances,
    WidthOneConstraints,
    compute_necessary_logit_constraints,
    tighten_logit_constraints,
)
from attncli.maths.head_capacity.head_width_one.width_one_decision import (
    WidthOneDecision,
    decide_width_one,
    place_keys_on_line,
)

Array = NDArray[np.float64]

LARGEST = {"float64": 1e308, "float32": 3.4e38, "bfloat16": 3.38e38}
"""Logits that the type can hold."""
SHARES = (0.5, 0.85, 0.2)
"""Of the total variation, for errors on the support; what leaks off it has the rest."""
ALONE = 1e-3
"""The share where every support has one position, and only rounding moves its keys."""
FINE = np.concatenate([np.geomspace(0.25, 0.98, 12), [1.0], np.geomspace(1.01, 8.0, 28)])
COARSE = np.array([0.6, 0.8, 1.0, 1.1, 1.3, 1.7, 2.5, 4.0, 8.0])
"""Of the steepness that the places ask for: the smallest that serves the row is taken."""
LONG = 512
"""Tokens above which steps are coarse and the first module that meets the request is taken."""
TALL = 1e20
"""Logits above which the first module is taken: a tower of rows is built anew for each."""
ROUNDS = 3


class WidthOneResult(NamedTuple):
    """What is known about width 1 for a pattern, and the module with the smallest logits that was found."""

    answer: WidthOneDecision
    module: FittedModule | None
    evidence: FitEvidence | None


ANSWERED: dict[tuple[bytes, FitRequest], WidthOneResult] = {}
"""The last patterns' answers: several widths, and the search as well as the decision, ask for the same one."""
KEPT = 8


@method(auto=0, needs=lambda most: 1, at_width=(0, "line"))
def line(target: csr_array, request: FitRequest, rng: np.random.Generator) -> Fit:
    """Width 1, decided: a row's support is the upper or the lower end of one order of the keys, or it is impossible.

    Signs of the queries are forced by pairs of rows, the order by the signs; places and steepnesses are then a linear
    programme, in closed form for equal weights without a mask. The module with the smallest logits, at any width.
    """
    found = fit_width_one(target, replace(request, d=1))
    if found.module is not None:
        return found.module.pad_module_to_width(request.d)
    if found.answer.possible is False:
        return MethodNotApplicable(
            f"width 1 is impossible: {found.answer.reason}", proved=request.d == 1
        )
    return MethodNotApplicable(f"width 1 is not decided: {found.answer.reason}")


def fit_width_one(target: csr_array, request: FitRequest) -> WidthOneResult:
    """Decide in exact arithmetic whether width 1 is enough; a yes requires a module that meets the request after rounding."""
    parts = (target.indptr, target.indices, target.data)
    question = hashlib.sha256(b"".join(part.tobytes() for part in parts)).digest(), request
    if question not in ANSWERED:
        for oldest in list(ANSWERED)[: 1 - KEPT]:
            del ANSWERED[oldest]
        ANSWERED[question] = decide_width_one_and_fit_module(target, request)
    return ANSWERED[question]


def decide_width_one_and_fit_module(target: csr_array, request: FitRequest) -> WidthOneResult:
    constraints = compute_necessary_logit_constraints(
        target, request.causal, convert_fit_request_to_tolerances(request)
    )
    budget = min(request.logit_budget, LARGEST[request.dtype])
    answer = decide_width_one(constraints, budget)
    if answer.keys is None or answer.sign is None:
        return WidthOneResult(answer, None, None)
    return WidthOneResult(
        answer, *find_width_one_module_with_smallest_logits(constraints, answer, request)
    )


def find_width_one_module_with_smallest_logits(
    constraints: WidthOneConstraints, answer: WidthOneDecision, request: FitRequest
) -> tuple[FittedModule, FitEvidence] | tuple[None, None]:
    """Find the module with the smallest logits that meets the request; for long patterns and towers, the first that
    does."""
    best: tuple[FittedModule, FitEvidence] | None = None
    for candidates in iter_width_one_modules(constraints, answer, request):
        for fit in candidates:
            evidence = measure_fit(fit, constraints.target)
            if evidence.meets_fit_request(request):
                if best is None or evidence.logit_scale < best[1].logit_scale:
                    best = fit, evidence
                break  # the next ones only have larger logits
        if best is not None and (constraints.target.shape[0] > LONG or best[1].logit_scale > TALL):
            break
    return best or (None, None)


def convert_fit_request_to_tolerances(request: FitRequest) -> Tolerances:
    return Tolerances(
        request.log_ratio_tolerance, float(np.log(request.off_support)), request.total_variation
    )


def iter_width_one_modules(
    constraints: WidthOneConstraints, answer: WidthOneDecision, request: FitRequest
) -> Iterator[Iterator[FittedModule]]:
    """Iterate over modules from positions with a margin for rounding and many small leaks; they differ in their middle."""
    assert answer.sign is not None
    assert answer.keys is not None
    if not len(constraints.rows):
        nothing = np.zeros((constraints.target.shape[0], 1))
        yield iter([make_fitted_module(nothing, nothing, request.dtype, request.causal)])
        return
    limit = min(request.logit_budget, LARGEST[request.dtype])
    for share in SHARES if has_support_of_several_keys(constraints, answer.keys) else (ALONE,):
        spread, gap = compute_tolerances_less_rounding(constraints.target, request, share)
        for _ in range(ROUNDS):
            keys, reach = place_keys_on_line(
                tighten_logit_constraints(constraints, spread, gap), answer.sign, limit
            )
            if keys is None or reach is None or not np.isfinite(keys).all():
                break
            factors = np.ones(len(gap))
            yield iter_modules_with_shifted_keys(
                keys, reach, constraints, answer.sign, request, factors
            )
            if (factors < 1.05).all():
                break
            gap = gap * np.minimum(factors, 3.0)


def has_support_of_several_keys(constraints: WidthOneConstraints, keys: Array) -> bool:
    """Whether some support has several key positions: otherwise no error on it has to be shared out."""
    own = keys[constraints.target.indices]
    starts = constraints.target.indptr[:-1]
    spread = np.maximum.reduceat(own, starts) - np.minimum.reduceat(own, starts)
    return bool((spread[constraints.rows] > 0.0).any())


def iter_modules_with_shifted_keys(
    keys: Array,
    reach: Array,
    constraints: WidthOneConstraints,
    sign: NDArray[np.int64],
    request: FitRequest,
    factors: Array,
) -> Iterator[FittedModule]:
    """Iterate over modules, one for each centre of the keys; `factors` receives how much steeper than planned its
    rows are."""
    for shifted, size in iter_centre_shifts_of_keys(
        keys, constraints.has_masked_keys, request.dtype
    ):
        queries, needed = find_smallest_query_per_row(
            shifted, reach / size, constraints, sign, request
        )
        np.maximum(factors, needed, out=factors)
        yield make_fitted_module(queries, shifted[:, None], request.dtype, request.causal)


def compute_tolerances_less_rounding(
    target: csr_array, request: FitRequest, share: float
) -> tuple[Array, Array]:
    """[row]: how much errors on the support may differ, and how far below it the rest must be."""
    counts = np.diff(target.indptr)
    safety = 0.99 * SAFETY[request.dtype]
    tau = min(safety * request.total_variation, 0.999)
    several = counts > 1
    spread = np.minimum(
        safety * request.log_ratio_tolerance, 4.0 * np.arctanh(min(share * tau, 0.999))
    )
    leak = np.where(several, (1.0 - share) * tau, tau)
    least = np.minimum.reduceat(np.log(target.data), target.indptr[:-1])
    gap = np.maximum(-np.log(safety * request.off_support), np.log((1.0 - leak) / leak) + least)
    return np.full(len(counts), spread), np.maximum(gap, 1e-3)


def iter_centre_shifts_of_keys(
    keys: Array, masked: bool, dtype: str
) -> Iterator[tuple[Array, float]]:
    """Iterate over rounded keys about other centres: those with the smallest logits first, then those that keep
    digits.

    Without a mask every query sees all keys, and their middle is best; with one the places are about 0 as they came.
    """
    middle = 0.5 * float(keys.max() + keys.min())
    first = (0.0, middle) if masked else (middle, 0.0)
    others = (float(np.median(keys)), float(keys.max()), float(keys.min()))
    for centre in dict.fromkeys((*first, *others)):
        moved = keys - centre
        size = max(float(np.abs(moved).max()), 1e-300)
        yield round_to_dtype(moved / size, dtype).astype(np.float64), size


def find_smallest_query_per_row(
    keys: Array,
    reach: Array,
    constraints: WidthOneConstraints,
    sign: NDArray[np.int64],
    request: FitRequest,
) -> tuple[Array, Array]:
    """For every row, the smallest query that meets the request, and how much larger it is than the keys require."""
    length = len(keys)
    queries, needed = np.zeros((length, 1)), np.ones(length)
    problem = RowQueryProblem(keys[:, None], np.zeros((0, 0)), np.triu_indices(1), request, 1.0)
    base = np.zeros(length)
    base[constraints.rows] = sign[constraints.rows] * 1.0 / reach
    least = np.full(length, np.inf)
    waiting = np.zeros(length, dtype=bool)
    waiting[constraints.rows] = True
    for factor in FINE if length <= LONG else COARSE:
        for rows in iter_blocks_of_map_rows(length):
            some = np.flatnonzero(waiting[rows]) + rows.start
            if not len(some):
                continue
            support = list_nonzero_entries_of_rows(constraints.target, some)
            tried = factor * base[some, None]
            fine, variation = find_rows_meeting_fit_limits(
                request, support, evaluate_losses_at_queries(problem, support, tried)
            )
            better = fine | (variation < least[some])
            queries[some[better]], needed[some[better]] = tried[better], factor
            least[some] = np.minimum(least[some], variation)
            waiting[some[fine]] = False
    return queries, needed
