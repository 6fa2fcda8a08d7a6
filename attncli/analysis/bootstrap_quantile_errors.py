"""Standard errors of quantiles."""

import math
from collections.abc import Sequence

import numpy as np

RESAMPLES = 400
"""Of the draws that the quantiles are of."""


def bootstrap_quantile_errors(
    values: Sequence[float], quantiles: Sequence[float]
) -> dict[float, float]:
    """Bootstrap standard errors of quantiles of several draws; none where some are infinite."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return {}
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    found = np.quantile(np.asarray(values)[drawn], quantiles, axis=1)
    return dict(zip(quantiles, found.std(axis=1).tolist(), strict=True))
