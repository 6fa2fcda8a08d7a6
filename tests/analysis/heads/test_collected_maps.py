"""Maps that are kept: the chosen heads, put together from strips, and as pictures of a bounded size."""

import json

import numpy as np
import torch

from attncli.analysis.heads.map_export.collected_maps import (
    MOST_CELLS,
    CollectedMaps,
    coarsen_map_by_maximum,
    estimate_bytes_of_maps,
)
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.capture import AttentionSite, MapShape, Strip

SITE = AttentionSite("h", 2, "self", "sliding", "h.2.attn")
OTHER = AttentionSite("h", 0, "self", "full", "h.0.attn")


def kept(weights: torch.Tensor, visible: torch.Tensor, rows: int = 2) -> CollectedMaps:
    """Heads 1 and 3 of layer 2, from strips without the keys that none of their rows sees."""
    found = CollectedMaps({2}, lambda layer, head: head in (1, 3))
    for site in (OTHER, SITE):
        for start in range(0, len(visible), rows):
            part = visible[start : start + rows]
            seen = part.any(dim=0).nonzero()
            keys = slice(int(seen[0]), int(seen[-1]) + 1)
            strip = weights[None, :, start : start + rows, keys]
            found.accumulate_map_rows(site, Strip(strip, start, keys.start, *visible.shape, part[None, None, :, keys]))  # fmt: skip
    return found


def test_chosen_heads_are_put_together_from_strips() -> None:
    back = torch.arange(7)[:, None] - torch.arange(7)
    visible = (back >= 0) & (back < 3)
    weights = torch.rand(4, 7, 7, generator=torch.Generator().manual_seed(0)) * visible
    found = kept(weights, visible)
    tensors = found.maps_by_tensor_name()
    assert set(tensors) == {"layers.2.attention", "layers.2.visible"}
    assert np.array_equal(tensors["layers.2.attention"], weights[[1, 3]])
    assert np.array_equal(tensors["layers.2.visible"], visible)
    said = found.build_file_metadata({"class": "Some"}, TokenNames("abcdefg"))
    assert json.loads(said["heads"]) == {"layers.2.attention": [1, 3]}
    assert json.loads(said["spans"]) == {"layers.2.attention": "sliding"}
    first, second = found.build_map_pictures(TokenNames("abcdefg"))
    assert (first.title, second.title) == ("head 2.1", "head 2.3")
    assert np.array_equal(second.panels["2.3"], weights[3])


def test_heads_and_bytes_are_counted_before_the_run() -> None:
    """Two heads of 7 × 9 numbers, and one mask."""
    chosen = CollectedMaps({2}, lambda layer, head: head in (1, 3))
    assert estimate_bytes_of_maps({OTHER: MapShape(4, 7, 7), SITE: MapShape(4, 7, 9)}, chosen) == (
        2,
        (2 * 4 + 1) * 63,
    )


def test_long_maps_are_drawn_by_the_largest_weight_of_each_square() -> None:
    size = MOST_CELLS + 50
    cells = np.zeros((size, size), np.float32)
    cells[3, 248] = 0.9
    cells[249, 0] = 0.4
    found = coarsen_map_by_maximum(cells)
    assert found.shape == (size // 2, size // 2)
    assert {place: found[place] for place in zip(*found.nonzero(), strict=True)} == {
        (1, 124): np.float32(0.9),
        (124, 0): np.float32(0.4),
    }
    assert coarsen_map_by_maximum(cells[:MOST_CELLS, :MOST_CELLS]).shape == (MOST_CELLS, MOST_CELLS)
