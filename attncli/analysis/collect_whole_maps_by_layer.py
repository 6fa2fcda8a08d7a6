"""Whole maps of a few layers at a time: as many passes as memory requires, never all maps of a
model at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.analysis.heads.map_export.collected_maps import CollectedMaps
from attncli.analysis.heads.model_inspection import select_every_head
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.capture import STRIP_MEMORY, AttentionSite, MapShape, Strip, capture_attention
from attncli.capture.model_errors import translate_model_errors
from attncli.models.precision import run_in_model_precision

BUDGET = 1 << 28
"""Bytes of maps in memory at once; at least one layer's."""


@dataclass
class LayerMaps:
    """Takes the strips of some attentions as they pass."""

    sites: frozenset[AttentionSite]
    collected_maps: CollectedMaps = field(
        default_factory=lambda: CollectedMaps(None, select_every_head)
    )
    windows: dict[AttentionSite, int] = field(default_factory=dict)
    """Attention layers that run in windows and so have no single map, with the number of windows.
    """

    def accumulate_map_rows(self, site: AttentionSite, strip: Strip) -> None:
        if site not in self.sites:
            return
        if len(strip.weights) > 1:
            self.windows[site] = len(strip.weights)
            return
        self.collected_maps.accumulate_map_rows(site, strip)

    @property
    def maps_by_layer(self) -> Mapping[AttentionSite, NDArray[np.floating]]:
        """[head, query, key] of each."""
        return self.collected_maps.maps


def self_attention_sites(shapes: Mapping[AttentionSite, MapShape]) -> list[AttentionSite]:
    """Attention layers of a stack to itself: a query and a key for every token."""
    return [
        site
        for site, shape in shapes.items()
        if site.is_self_attention and shape.queries == shape.keys
    ]


def group_layers_to_fit_memory(
    sites: Sequence[AttentionSite], shapes: Mapping[AttentionSite, MapShape], cells: int
) -> Iterator[list[AttentionSite]]:
    """Group the attention layers, in order, as many as fit in memory; `cells`: of a map."""
    group: list[AttentionSite] = []
    size = 0
    for site in sites:
        own = 8 * shapes[site].heads * cells
        if group and size + own > BUDGET:
            yield group
            group, size = [], 0
        group.append(site)
        size += own
    if group:
        yield group


def capture_maps_of_layers(
    subject: PreparedModel, sites: Sequence[AttentionSite], kwargs: Mapping[str, Tensor]
) -> LayerMaps:
    """Run one forward pass and keep the maps of these attention layers."""
    found = LayerMaps(frozenset(sites))
    with (
        translate_model_errors(subject.body, {"the text": kwargs}),
        torch.no_grad(),
        run_in_model_precision(subject.body),
        capture_attention(subject.body, found.accumulate_map_rows, STRIP_MEMORY, subject.shapes),
    ):
        subject.body(**kwargs)
    return found
