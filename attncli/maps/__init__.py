"""Synthetic attention maps with known answers, one kind per file.

To add one, add a file `attncli/maps/NAME.py` with a function `NAME(tokens, rng, *, parameters…)` that returns a
row-stochastic matrix [query, key]; its keyword parameters are what `--map NAME:…` can set.

    >>> import numpy as np
    >>> from attncli.maps import MAPS
    >>> MAPS["uniform"](2, np.random.default_rng(0)).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attncli.registry import Registry

if TYPE_CHECKING:
    from attncli.maps._map_rows import Map

MAPS: Registry[Callable[..., "Map"]] = Registry("map", "attncli.maps")
