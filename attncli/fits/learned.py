"""Queries and keys made for the one pattern."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from attncli.errors import UsageError
from attncli.fits._fit_request_and_module import (
    Fit,
    FitRequest,
    FittedModule,
    MethodNotApplicable,
    make_fitted_module,
)
from attncli.fits._fitting_method_registry import method
from attncli.fits._key_initialisation import (
    initialise_queries_and_keys_by_svd,
    iter_modules_of_arranged_keys,
)
from attncli.fits._newton_query_optimisation import optimise_queries_for_keys
from attncli.fits._query_key_losses import (
    LossTarget,
    compute_likelihood_loss,
    compute_margin_loss,
    minimise_loss_by_lbfgs,
    prepare_target_for_loss,
)
from attncli.fits._verify_fit import measure_fit
from attncli.maths.dtype_rounding import round_to_dtype
from attncli.resource_limits import require_memory

Array = NDArray[np.float64]

LIMIT = 8192
SCHEDULE = (40, 200, 700, 2000)
"""Likelihood steps of each round; `effort` says how many rounds there are."""
SHARPENINGS = 3
LAVISH, FRUGAL = (1e-4,), (3e-2, 3e-3, 1e-4)
"""Weight decays that are tried: more of it keeps the logits small, which bfloat16 and a logit budget ask for."""
SHARPENING_STEPS = 60
TIGHTER = 0.5
"""Share of a module's logits at which a second search is done."""
SOFT_SCHEDULE, SOFT_SHARPENINGS, SOFT_SHARPENING_STEPS = (20, 200), 4, 30
"""Of that search: likelihood steps of each round, and how often and how long each is sharpened."""


@method(auto=2, at_width=(3, "learned"), for_heads=0)
def learned(
    target: csr_array, request: FitRequest, rng: np.random.Generator, *, spread: float = 1.0
) -> Fit:
    """Queries and keys fitted to the pattern itself: the practical lower envelope of the width.

    Keys along an order first (rings and arcs, alternating or not). Else from the pattern's spectrum, L-BFGS on the
    likelihood of all queries and keys, then on the margins of the rows that miss the request, then each row's own convex
    problem at the keys as rounded; longer rounds follow while rows are left. A failed search proves nothing: the
    problem is NP-hard. `spread` is the size of what is random in the start. Cost n² d a step.
    """
    length = target.shape[0]
    if not spread > 0.0:
        raise UsageError(f"method 'learned': spread must be positive, not {spread}.")
    if length > LIMIT:
        return MethodNotApplicable(
            f"learned takes n² d operations a step: n = {length} is above {LIMIT}"
        )
    require_memory(
        32 * length**2, f"learned at n = {length}", "choose a smaller length or certificate"
    )
    fits = [
        each
        for each in iter_modules_of_arranged_keys(target, request)
        if each[1].meets_fit_request(request)
    ]
    if fits:
        return min(fits, key=lambda pair: pair[1].logit_scale)[0]
    start = initialise_queries_and_keys_by_svd(target, request, rng, spread)
    best: tuple[float, FittedModule] | None = None
    for reached, both in iter_fitted_queries_and_keys(start, target, request):
        fit = refine_module_queries(both, target, request)
        evidence = measure_fit(fit, target)
        if evidence.meets_fit_request(request):
            return replace(fit, start=reached)
        if best is None or evidence.total_variation < best[0]:
            best = evidence.total_variation, fit
    assert best is not None
    return best[1]


def iter_fitted_queries_and_keys(
    start: Array, target: csr_array, request: FitRequest
) -> Iterator[tuple[Array, Array]]:
    """Longer and longer likelihood fits, each sharpened a few times; with small logits first where the request limits them.

    Each with the likelihood fit that it came from.
    """
    frugal = request.dtype == "bfloat16" or np.isfinite(request.logit_budget)
    settings = [
        prepare_target_for_loss(target, request, decay) for decay in (FRUGAL if frugal else LAVISH)
    ]
    progress = [start for _ in settings]
    schedule = SCHEDULE[: request.effort]
    longest = schedule[-1]
    for steps in schedule:
        for index, about in enumerate(settings):
            progress[index] = sharpened = minimise_loss_by_lbfgs(
                compute_likelihood_loss, progress[index], about, steps
            )
            if steps == longest:
                # where sharpening fails, no row is given up for the others
                yield (
                    sharpened,
                    sharpened,
                )
            for _ in range(SHARPENINGS):
                sharpened = minimise_loss_by_lbfgs(
                    compute_margin_loss, sharpened, about, SHARPENING_STEPS
                )
                yield progress[index], sharpened


def find_module_with_smaller_logits(
    fit: FittedModule,
    least: float,
    target: csr_array,
    request: FitRequest,
    rng: np.random.Generator,
) -> tuple[FittedModule | None, int]:
    """A module with logits below `least`, from where the search was before it found this one, and how many were tried.

    With half of the logits it is good enough, else the one with the smallest is taken; None where none has smaller ones.
    """
    start = (
        initialise_queries_and_keys_by_svd(target, request, rng, 1.0)
        if fit.start is None
        else fit.start
    )
    best, enough, tried = None, TIGHTER * least, 0
    for decay in FRUGAL[:-1]:
        for candidate in iter_fits_at_soft_margins(
            start, prepare_target_for_loss(target, request, decay)
        ):
            made = refine_module_queries(candidate, target, request)
            evidence, tried = measure_fit(made, target), tried + 1
            if evidence.meets_fit_request(request) and evidence.logit_scale < least:
                best, least = made, evidence.logit_scale
            if least <= enough:
                return best, tried
        if best is not None:
            break
    return best, tried


def iter_fits_at_soft_margins(start: Array, setting: LossTarget) -> Iterator[Array]:
    progress = start
    for steps in SOFT_SCHEDULE:
        progress = sharpened = minimise_loss_by_lbfgs(
            compute_likelihood_loss, progress, setting, steps
        )
        yield progress  # the smallest logits, where every row can be served as it is
        for _ in range(SOFT_SHARPENINGS):
            sharpened = minimise_loss_by_lbfgs(
                compute_margin_loss, sharpened, setting, SOFT_SHARPENING_STEPS
            )
            yield sharpened


def refine_module_queries(both: Array, target: csr_array, request: FitRequest) -> FittedModule:
    """The module of these keys, rounded at root mean square length 1, with the best query of every row."""
    queries, keys = both
    size = float(np.sqrt((keys**2).sum(axis=1).mean())) or 1.0
    keys = round_to_dtype(keys / size, request.dtype).astype(np.float64)
    solved = optimise_queries_for_keys(keys, target, request, queries * size)
    return make_fitted_module(solved.queries, keys, request.dtype, request.causal)
