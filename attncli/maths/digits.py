"""Numbers as people read them: four significant digits, whole from 1000 on, no exponent where it can be avoided."""

import math
import sys

SIGNIFICANT = 4

SMALLEST_DECIMAL = 1e-5
"""Smaller numbers are written with an exponent, and so are their spreads."""


def number(value: float) -> str:
    if isinstance(value, int):  # a count
        return f"{value:,}"
    return fixed(value, decimals(value, SIGNIFICANT))


def with_spread(value: float, spread: float) -> str:
    """`-77.3 ± 1.2`: two digits of the spread, never more of the value than it carries."""
    places = decimals(value, SIGNIFICANT)
    if spread:
        places = min(places, decimals(spread, 2))
    decimal = spread < 1e9 and not 0.0 < abs(value) < SMALLEST_DECIMAL
    plain = f"{spread:,.{places}f}" if decimal else number(spread)
    return f"{fixed(value, places)} ± {plain}"


def about(value: float) -> str:
    """Two significant digits of a whole number: `9,600,000`."""
    whole = round(value)
    return f"{round(whole, 2 - len(str(abs(whole)))) if abs(whole) >= 100 else whole:,}"


def with_interval(value: float, low: float, high: float) -> str:
    """`0.48 [0.45, 0.51]`: never more digits than two of the interval's half."""
    places = min(decimals(value, SIGNIFICANT), decimals((high - low) / 2.0, 2))
    return f"{fixed(value, places)} [{fixed(low, places)}, {fixed(high, places)}]"


def decimals(value: float, digits: int) -> int:
    """Places after the point that leave so many significant digits."""
    if value == 0.0:
        return digits - 1
    return max(0, min(9, digits - 1 - math.floor(math.log10(min(abs(value), sys.float_info.max)))))


def fixed(value: float, places: int) -> str:
    if abs(value) >= 1e9 or 0.0 < abs(value) < SMALLEST_DECIMAL:
        return f"{value:.{SIGNIFICANT - 1}e}"
    return f"{value:,.{places}f}"


def ten_to(log10: float) -> str:
    """10^x to two digits, whatever x."""
    if abs(log10) < 300:
        return f"{10.0**log10:.2g}"
    whole = math.floor(log10)
    return f"{10.0 ** (log10 - whole):.2g}e{whole:+d}"
