"""How a width grows with the length: constant, a + b ln n, or c n^e, selected by AIC."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from attncli.maths.number_format import format_short_number

Array = NDArray[np.float64]

FEWEST_LENGTHS = 4
"""Below it no law is fitted: two constants go through three points nearly, whatever the law."""

ROUNDING = 1.0 / 12.0
"""Variance of rounding to whole widths: residuals below it say nothing, and a perfect fit is not infinitely likely."""


@dataclass(frozen=True, slots=True)
class GrowthLaw:
    """One law, fitted."""

    name: str
    text: str
    parameters: tuple[float, ...]
    slope_error: float | None
    """Standard error of b (or of the exponent); None where there is none or no freedom is left."""
    aic: float
    """m ln(residual variance) + 2 · parameters; the smallest is the most credible, e^{Δ/2} times the next."""
    rival: bool = False
    """Whether it cannot be distinguished from the best law."""


def rank_width_growth_laws(lengths: Sequence[float], widths: Sequence[float]) -> list[GrowthLaw]:
    """The three laws, most credible first; points may repeat a length (several seeds)."""
    n, d = np.asarray(lengths, dtype=float), np.asarray(widths, dtype=float)
    if len(np.unique(n)) < FEWEST_LENGTHS:
        raise ValueError(f"`lengths` needs at least {FEWEST_LENGTHS} different values")
    return mark_indistinguishable_growth_laws(
        sorted(fit_three_width_growth_laws(n, d), key=lambda law: law.aic), n, d
    )


def fit_three_width_growth_laws(n: Array, d: Array) -> list[GrowthLaw]:
    return [fit_constant_width_law(d), fit_logarithmic_width_law(n, d), fit_power_width_law(n, d)]


CLOSE = 2.0
"""A law this little behind the best in AIC cannot be distinguished from it."""


def mark_indistinguishable_growth_laws(
    laws: Sequence[GrowthLaw], n: Array, d: Array
) -> list[GrowthLaw]:
    """Mark the laws that cannot be distinguished from the best: with all lengths, or with any one of them left out.

    A difference that one length makes is none; and the points of one length share its pattern's luck.
    """
    best, rivals = laws[0].name, {law.name for law in laws if law.aic - laws[0].aic < CLOSE}
    for left_out in np.unique(n):
        part = {
            law.name: law.aic
            for law in fit_three_width_growth_laws(n[n != left_out], d[n != left_out])
        }
        rivals |= {name for name, aic in part.items() if aic - part[best] < CLOSE}
    return [replace(law, rival=law.name in rivals and law.name != best) for law in laws]


def compute_akaike_criterion(residual: Array, parameters: int) -> float:
    variance = max(float(np.mean(residual**2)), ROUNDING)
    return len(residual) * math.log(variance) + 2.0 * parameters


def fit_constant_width_law(d: Array) -> GrowthLaw:
    mean = float(d.mean())
    return GrowthLaw(
        "constant",
        f"d = {format_short_number(mean, 3)}",
        (mean,),
        None,
        compute_akaike_criterion(d - mean, 1),
    )


def fit_logarithmic_width_law(n: Array, d: Array) -> GrowthLaw:
    design = np.stack([np.ones_like(n), np.log(n)], axis=1)
    (a, b), error = solve_least_squares(design, d)
    residual = d - design @ np.array([a, b])
    return GrowthLaw(
        "log",
        f"d = {format_short_number(a, 3)} + {format_short_number(b, 3)} ln n",
        (a, b),
        error,
        compute_akaike_criterion(residual, 2),
    )


def fit_power_width_law(n: Array, d: Array) -> GrowthLaw:
    """Least squares in d itself, so that its AIC compares with the others'."""

    def fit_power_law_factor(exponent: float) -> tuple[float, Array]:
        powers = np.exp(exponent * (np.log(n) - np.log(n).mean()))
        factor = float(powers @ d / (powers @ powers))
        return factor, d - factor * powers

    best = minimise_loss_over_power_exponent(
        lambda exponent: float(np.sum(fit_power_law_factor(exponent)[1] ** 2))
    )
    factor, residual = fit_power_law_factor(best)
    c = factor * math.exp(-best * float(np.log(n).mean()))
    slopes = (d - residual) * (np.log(n) - np.log(n).mean())
    freedom = len(d) - 2
    error = math.sqrt(
        float(residual @ residual) / max(freedom, 1) / max(float(slopes @ slopes), 1e-300)
    )
    return GrowthLaw(
        "power",
        f"d = {format_short_number(c, 3)} n^{format_short_number(best, 3)}",
        (c, best),
        error,
        compute_akaike_criterion(residual, 2),
    )


def minimise_loss_over_power_exponent(loss: Callable[[float], float]) -> float:
    """The best exponent between -1 and 4: a grid first, since the loss may have flat parts."""
    grid = np.linspace(-1.0, 4.0, 101)
    near = grid[int(np.argmin([loss(float(exponent)) for exponent in grid]))]
    return float(minimize_scalar(loss, bounds=(near - 0.05, near + 0.05), method="bounded").x)


def solve_least_squares(design: Array, d: Array) -> tuple[Array, float | None]:
    """Coefficients, and the standard error of the last."""
    solved = np.linalg.lstsq(design, d)[0].astype(np.float64)
    freedom = len(d) - design.shape[1]
    residual = d - design @ solved
    if freedom < 1:
        return solved, None
    covariance = np.linalg.inv(design.T @ design) * float(residual @ residual) / freedom
    return solved, float(np.sqrt(covariance[-1, -1]))
