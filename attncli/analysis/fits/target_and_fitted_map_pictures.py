"""Target, achieved map and error of fits, small enough to draw."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attncli.fits._fit_files import SavedFit
from attncli.fits._verify_fit import iter_blocks_of_map_rows, mask_future_keys
from attncli.maths.dtype_rounding import matmul_in_dtype, round_to_dtype
from attncli.records import MapPicture, Report

Array = NDArray[np.float64]

CELLS = 192
"""Cells on a side above which maps are drawn coarser: each cell is the largest value in it, so that no key is lost."""


def add_map_pictures_of_fits(report: Report, fits: Sequence[SavedFit]) -> Report:
    """The report with its maps, for the plots."""
    return replace(report, pictures=tuple(build_map_picture_of_fit(fit) for fit in fits))


def build_map_picture_of_fit(fit: SavedFit) -> MapPicture:
    """Build the plot from blocks of rows: no token × token array is in memory."""
    stored, dtype = fit.module, fit.module.dtype
    w_q, w_k, x = (round_to_dtype(part, dtype) for part in (stored.w_q, stored.w_k, stored.x))
    queries, keys = matmul_in_dtype(x, w_q, dtype), matmul_in_dtype(x, w_k, dtype)
    length = len(x)
    edges = np.unique(np.linspace(0, length, min(CELLS, length) + 1).astype(int))
    target, achieved, error = np.zeros((3, len(edges) - 1, len(edges) - 1))
    for rows in iter_blocks_of_map_rows(length):
        logits = matmul_in_dtype(queries[rows], keys.T, dtype).astype(np.float64)
        if stored.causal:
            mask_future_keys(logits, rows.start)
        made = np.exp(logits - logits.max(axis=1, keepdims=True))
        made /= made.sum(axis=1, keepdims=True)
        targets = fit.target[rows].toarray()
        band = np.searchsorted(edges, np.arange(rows.start, rows.stop), side="right") - 1
        for grid, values in ((target, targets), (achieved, made), (error, np.abs(made - targets))):
            np.maximum.at(grid, band, np.maximum.reduceat(values, edges[:-1], axis=1))
    panels = {"target": target, "achieved": achieved, "|error|": error}
    title = f"{fit.pattern} by {fit.method}, {length} tokens"
    return MapPicture(
        title, {name: tuple(tuple(row) for row in cells.tolist()) for name, cells in panels.items()}
    )
