"""Slopes of straight lines through a few measurements."""

from typing import NamedTuple

import numpy as np

from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import Array


class Slopes(NamedTuple):
    """Slopes of many curves over the same places; nan where a curve has a gap."""

    slope: Array
    error: Array
    """Standard errors of the slopes, from how far the points lie off their lines; nan for fewer than three points."""


def fit_slopes_of_lines(places: Array, curves: Array) -> Slopes:
    """Least squares through curves [curve, place]."""
    away = places - places.mean()
    square = float(away @ away)
    if len(places) < 2 or square == 0.0:
        unknown = np.full(len(curves), np.nan)
        return Slopes(unknown, unknown)
    centred = curves - curves.mean(axis=1, keepdims=True)
    slope = centred @ away / square
    off = centred - slope[:, None] * away
    freedom = len(places) - 2
    if freedom < 1:
        return Slopes(slope, np.full(len(curves), np.nan))
    return Slopes(slope, np.sqrt(np.square(off).sum(axis=1) / freedom / square))
