"""Format numbers for people: four significant digits, whole from 1000 on, no exponent where possible."""

import math
import sys

SIGNIFICANT = 4

SMALLEST_DECIMAL = 1e-5
"""Smaller numbers are written with an exponent, and so are their spreads."""


def format_number(value: float) -> str:
    if isinstance(value, int):  # a count
        return f"{value:,}"
    return format_with_fixed_decimal_places(value, count_decimal_places(value, SIGNIFICANT))


def format_short_number(value: float, digits: int, sign: bool = False) -> str:
    """At most so many significant digits, whole beyond them: `0.5`, `-1,543,566`, `+1.2e-06`."""
    is_large = 10.0**digits <= abs(value) < 1e9
    return f"{value:{'+' if sign else ''},{'.0f' if is_large else f'.{digits}g'}}"


def format_with_standard_deviation(value: float, spread: float) -> str:
    """`-77.3 ± 1.2`: two digits of the spread, never more of the value than it carries."""
    places = count_decimal_places(value, SIGNIFICANT)
    if spread:
        places = min(places, count_decimal_places(spread, 2))
    decimal = spread < 1e9 and not 0.0 < abs(value) < SMALLEST_DECIMAL
    plain = f"{spread:,.{places}f}" if decimal else format_number(spread)
    return f"{format_with_fixed_decimal_places(value, places)} ± {plain}"


def format_two_significant_digits(value: float) -> str:
    """Two significant digits of a whole number: `9,600,000`."""
    whole = round(value)
    return f"{round(whole, 2 - len(str(abs(whole)))) if abs(whole) >= 100 else whole:,}"


def format_with_confidence_interval(value: float, low: float, high: float) -> str:
    """`0.48 [0.45, 0.51]`: never more digits than two of the interval's half."""
    places = min(
        count_decimal_places(value, SIGNIFICANT), count_decimal_places((high - low) / 2.0, 2)
    )
    return f"{format_with_fixed_decimal_places(value, places)} [{format_with_fixed_decimal_places(low, places)}, {format_with_fixed_decimal_places(high, places)}]"


def count_decimal_places(value: float, digits: int) -> int:
    """Places after the point that leave so many significant digits."""
    if value == 0.0:
        return digits - 1
    return max(0, min(9, digits - 1 - math.floor(math.log10(min(abs(value), sys.float_info.max)))))


def format_with_fixed_decimal_places(value: float, places: int) -> str:
    if abs(value) >= 1e9 or 0.0 < abs(value) < SMALLEST_DECIMAL:
        return f"{value:.{SIGNIFICANT - 1}e}"
    return f"{value:,.{places}f}"


def format_power_of_ten(log10: float) -> str:
    """10^x to two digits, for any x."""
    if abs(log10) < 300:
        return f"{10.0**log10:.2g}"
    whole = math.floor(log10)
    return f"{10.0 ** (log10 - whole):.2g}e{whole:+d}"
