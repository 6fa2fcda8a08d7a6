"""Synthetic attention maps with known answers, one kind per file.

To add one, add a file `attncli/maps/NAME.py` with a function `NAME(tokens, rng, *, parameters…)` that returns a
row-stochastic matrix [query, key]; its keyword parameters are what `--map NAME:…` can set.
"""

from attncli.registry import Registry

MAPS = Registry("map", "attncli.maps")
