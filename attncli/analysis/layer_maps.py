"""Whole maps of a few layers at a time: as many passes as memory asks for, and never all maps of a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.analysis.heads.map_export.collected_maps import KeptMaps
from attncli.analysis.heads.model_heads import HeadSubject, everything
from attncli.capture import STRIP_MEMORY, Shape, Site, Strip, streaming
from attncli.capture.model_errors import failures_of
from attncli.models.loading.precision import own_precision

BUDGET = 1 << 28
"""Bytes of maps that are held at once, one layer's at least."""


@dataclass
class LayerMaps:
    """Takes the strips of some attentions as they pass."""

    sites: frozenset[Site]
    kept: KeptMaps = field(default_factory=lambda: KeptMaps(None, everything))
    windows: dict[Site, int] = field(default_factory=dict)
    """Attentions that run within windows, which have no one map, and how many."""

    def take(self, site: Site, strip: Strip) -> None:
        if site not in self.sites:
            return
        if len(strip.weights) > 1:
            self.windows[site] = len(strip.weights)
            return
        self.kept.take(site, strip)

    @property
    def maps(self) -> Mapping[Site, NDArray[np.floating]]:
        """[head, query, key] of each."""
        return self.kept.maps


def own_attentions(shapes: Mapping[Site, Shape]) -> list[Site]:
    """Those of a stack to itself: a query and a key for every token."""
    return [site for site, shape in shapes.items() if site.is_self and shape.queries == shape.keys]


def groups(sites: Sequence[Site], shapes: Mapping[Site, Shape], cells: int) -> Iterator[list[Site]]:
    """The attentions in order, as many together as the budget holds; `cells` of a map."""
    group: list[Site] = []
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


def maps_of(subject: HeadSubject, sites: Sequence[Site], kwargs: Mapping[str, Tensor]) -> LayerMaps:
    """One forward pass, of which these attentions' maps stay."""
    found = LayerMaps(frozenset(sites))
    with (
        failures_of(subject.body, {"the text": kwargs}),
        torch.no_grad(),
        own_precision(subject.body),
        streaming(subject.body, found.take, STRIP_MEMORY, subject.shapes),
    ):
        subject.body(**kwargs)
    return found
