"""Fitted laws as lines: of each fit the most credible one."""

import math
from collections.abc import Iterator

from attncli.maths.curve_fits.evaluate_growth_law import CONSTANT, RATES, evaluate_growth_law
from attncli.records import JsonObject, Report

OF = "d_min"
"""The metric that laws are fitted to."""
POINTS = 48


def build_fitted_curves(report: Report, metric: str, lengths: list[float]) -> Iterator[JsonObject]:
    """Curves of the fitted laws over the range of the lengths, each with the name of its series."""
    if metric != OF or len(lengths) < 2:
        return
    low, high = math.log(min(lengths)), math.log(max(lengths))
    between = [math.exp(low + (high - low) * step / (POINTS - 1)) for step in range(POINTS)]
    places = sorted({*between[1:-1], *lengths})
    for row in report.rows:
        if row.metric != "aic_above_best" or row.value != 0.0:
            continue
        fit, law = str(row.keys["fit"]), str(row.keys["law"])
        start, rate = (
            find_constant_of_fitted_law(report, name, fit, law)
            for name in ("law_at_one_token", RATES.get(law, ""))
        )
        if start is not None and (rate is not None or law == CONSTANT):
            points = [[n, evaluate_growth_law(law, start, rate or 0.0, n)] for n in places]
            name = f"{fit}: {law} law"
            yield {"of": fit, "kind": "law", "name": name, "points": points}


def find_constant_of_fitted_law(report: Report, metric: str, fit: str, law: str) -> float | None:
    for row in report.rows:
        if row.metric == metric and row.keys.get("fit") == fit and row.keys.get("law") == law:
            return row.value
    return None
