"""Fits: one method per file, a function `(target, request, rng, *, …) -> Fit` of a row-stochastic sparse target.

A fit is the module softmax(x w_q w_k^T x^T) with w_q = [I_d; 0], w_k = [0; I_d], fixed by d alone, so that modules of
one width share their weights and only x knows the pattern. A method returns the best module it has at width d, or says
why it cannot make one; whether a module is good enough is decided by `measure_fit` alone, after rounding. A method says in
`@method(…)` what searches need to know of it.

    >>> import numpy as np
    >>> from attncli.fits import FITS, FitRequest, measure_fit
    >>> from attncli.patterns import build_pattern
    >>> rng, request = np.random.default_rng(0), FitRequest(d=4)
    >>> target = build_pattern("previous", 8, rng)
    >>> fit = FITS["learned"](target, request, rng)
    >>> measure_fit(fit, target).meets_fit_request(request)
    True
"""

from attncli.fits._fit_request_and_module import (
    MOST_WIDTH,
    Fit,
    FitRequest,
    FittedModule,
    MethodNotApplicable,
)
from attncli.fits._fitting_method_registry import FITS, method
from attncli.fits._verify_fit import FitEvidence, measure_fit

__all__ = [
    "FITS",
    "MOST_WIDTH",
    "Fit",
    "FitEvidence",
    "FitRequest",
    "FittedModule",
    "MethodNotApplicable",
    "measure_fit",
    "method",
]
