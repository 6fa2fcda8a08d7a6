"""The metrics of a text's attentions as one array: tensors of a few numbers each take six times the memory."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from attncli.analysis.heads.forward_passes.head_observer import PassResult
from attncli.capture import AttentionSite
from attncli.metrics.attention._metric_accumulator import Values

Place = tuple[int, tuple[int, ...]] | str
"""The first number of a metric and its shape; or the reason why there is none."""


@dataclass(frozen=True)
class PackedValues(Mapping[str, Tensor | str]):
    """The metrics of one attention."""

    places: Mapping[str, Place]
    """The same object for all texts of one shape."""
    numbers: Tensor
    """Of all attentions of the text, in float64."""

    def __getitem__(self, name: str) -> Tensor | str:
        place = self.places[name]
        if isinstance(place, str):
            return place
        start, shape = place
        return self.numbers[start : start + math.prod(shape)].view(shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def flatten_pass_metrics(found: PassResult) -> PassResult:
    """The same result, whose metrics of attentions and of uniform attention are packed."""
    return replace(
        found,
        heads=flatten_metric_values(found.heads),
        nulls=flatten_metric_values(found.nulls),
    )


def flatten_metric_values(
    values: Mapping[AttentionSite, Values],
) -> dict[AttentionSite, Values]:
    numbers: list[Tensor] = [torch.empty(0, dtype=torch.float64)]
    places: dict[AttentionSite, Mapping[str, Place]] = {}
    start = 0
    for site, own in values.items():
        found: list[tuple[str, Place]] = []
        for name, value in own.items():
            if isinstance(value, str):
                found.append((name, value))
                continue
            found.append((name, (start, tuple(value.shape))))
            numbers.append(value.flatten().to("cpu", torch.float64))
            start += value.numel()
        places[site] = share_equal_array_layouts(tuple(found))
    whole = torch.cat(numbers)
    return {site: PackedValues(own, whole) for site, own in places.items()}


@lru_cache(maxsize=1024)
def share_equal_array_layouts(places: tuple[tuple[str, Place], ...]) -> Mapping[str, Place]:
    return dict(places)
