"""Fixed keys, the best query for each row."""

import numpy as np
from scipy.sparse import csr_array

from attncli.fits._fit_request_and_module import (
    Fit,
    FitRequest,
    MethodNotApplicable,
    make_fitted_module,
)
from attncli.fits._fitting_method_registry import method
from attncli.fits._newton_query_optimisation import optimise_queries_for_keys
from attncli.fits._pattern_independent_keys import make_pattern_independent_keys
from attncli.maths.dtype_rounding import round_to_dtype

LIMIT = 8192


@method(auto=3, last=True, fixed_keys=True, for_heads=1)
def convex(
    target: csr_array, request: FitRequest, rng: np.random.Generator, *, keys: str = "gaussian"
) -> Fit:
    """Fixed unit-norm keys; each query solves its own convex problem (batched Newton).

    The keys (`spread` or `gaussian`) know nothing of the pattern. They are rounded to the dtype of evaluation first,
    so that the queries make up for it. Cost n² d² / 2 a step.
    """
    length = target.shape[0]
    if length > LIMIT:
        return MethodNotApplicable(
            f"convex takes n² d² operations a step: n = {length} is above {LIMIT}"
        )
    chosen = round_to_dtype(
        make_pattern_independent_keys(keys, length, request.d, rng), request.dtype
    ).astype(np.float64)
    solved = optimise_queries_for_keys(chosen, target, request)
    return make_fitted_module(solved.queries, chosen, request.dtype, request.causal)
