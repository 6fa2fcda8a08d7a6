"""Evaluate fitted growth laws for plots; no numpy, as reports are read without it."""

import math

CONSTANT, LOG, POWER = "constant", "log", "power"
RATES = {LOG: "slope", POWER: "exponent"}
"""The metric of a report that holds each law's second number."""


def evaluate_growth_law(law: str, start: float, rate: float, n: float) -> float:
    """c, a + b ln n or c n^e, by their value at n = 1 and by b or e."""
    if law == LOG:
        return start + rate * math.log(n)
    return start * n**rate if law == POWER else start
