"""Maps of the chosen heads, collected while a model runs, for a file or a plot."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from attncli.analysis.heads.report_rows.head_rows import Keeps
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.capture import AttentionSite, MapShape, Strip
from attncli.capture.saved_maps.map_names import (
    FORMAT,
    name_attention_map_tensor,
    name_visible_keys_tensor,
)
from attncli.errors import InputError, UsageError
from attncli.io.atomic_files import require_writable_path
from attncli.maths.number_format import format_short_number
from attncli.progress import Say
from attncli.records import Facts, MapPicture
from attncli.resource_limits import require_memory

MOST_CELLS = 200
"""Of the side of a picture; longer texts are drawn coarser."""


@dataclass
class CollectedMaps:
    """Takes strips as they pass."""

    layers: Collection[int] | None
    selects: Keeps
    for_file: bool = False
    """Whether they are saved in a file, which has one map for each head."""
    numbers: Mapping[AttentionSite, Sequence[int]] = field(default_factory=dict)
    """The true numbers of an attention's heads, where not all are there."""
    maps: dict[AttentionSite, NDArray[np.floating]] = field(default_factory=dict)
    """[head, query, key], in float64 where the model runs in it."""
    heads: dict[AttentionSite, list[int]] = field(default_factory=dict)
    visible: dict[AttentionSite, NDArray[np.uint8]] = field(default_factory=dict)
    """[query, key], where some key is hidden."""

    def accumulate_map_rows(self, site: AttentionSite, strip: Strip) -> None:
        if self.layers is not None and site.layer not in self.layers:
            return
        numbers = self.numbers.get(site, range(strip.weights.shape[1]))
        chosen = [head for head, each in enumerate(numbers) if self.selects(site.layer, each)]
        if not chosen:
            return
        if self.for_file and len(strip.weights) > 1:
            raise InputError(
                f"layer {site.layer} ({site.name}) attends within {len(strip.weights)} windows, and a file holds one map of "
                "each head: choose other layers with `layers`."
            )
        weights = strip.weights[0].cpu().numpy()
        if strip.first_query == 0:
            self.heads[site] = [numbers[head] for head in chosen]
            shape = (len(chosen), strip.queries, strip.keys)
            self.maps[site] = np.zeros(shape, weights.dtype)
        rows = slice(strip.first_query, strip.first_query + strip.weights.shape[2])
        part = slice(strip.first_key, strip.first_key + strip.weights.shape[3])
        for place, head in enumerate(chosen):
            self.maps[site][place, rows, part] = weights[
                head
            ]  # chosen at once, they would be copied twice
        if strip.visible is not None:
            if strip.first_query == 0:
                self.visible[site] = np.zeros((strip.queries, strip.keys), np.uint8)
            self.visible[site][rows, part] = strip.visible[0, 0].to("cpu", torch.uint8).numpy()

    def maps_by_tensor_name(self) -> dict[str, NDArray[np.generic]]:
        """The maps by tensor name, for a file."""
        named: dict[str, NDArray[np.generic]] = {}
        names = self.tensor_names_by_layer()
        for site, weights in self.maps.items():
            name = names[site]
            named[name] = weights
            if site in self.visible:
                named[name_visible_keys_tensor(name)] = self.visible[site]
        return named

    def build_file_metadata(self, identity: Facts, named: TokenNames) -> dict[str, str]:
        names = self.tensor_names_by_layer()
        return {
            "format": FORMAT,
            "version": "1",
            "model": json.dumps(identity),
            "tokens": json.dumps(list(named.own)),
            **({"decoder_tokens": json.dumps(list(named.decoder))} if named.decoder else {}),
            "heads": json.dumps({names[site]: heads for site, heads in self.heads.items()}),
            "spans": json.dumps({names[site]: site.span for site in self.maps}),
        }

    def tensor_names_by_layer(self) -> dict[AttentionSite, str]:
        """Tensor name of each attention layer."""
        several = self.has_several_stacks_or_kinds()
        return {site: name_attention_map_tensor(site, several) for site in self.maps}

    def has_several_stacks_or_kinds(self) -> bool:
        return len({(site.stack, site.kind) for site in self.maps}) > 1

    def build_map_pictures(self, names: TokenNames) -> list[MapPicture]:
        """One plot for each square map of tokens over themselves; rows are queries."""
        found = []
        for site, weights in self.maps.items():
            for head, number in zip(weights, self.heads[site], strict=True):
                if head.shape[0] != head.shape[1]:
                    continue
                cells = coarsen_map_by_maximum(head)
                queries, keys = names.names_of_queries_and_keys(site, *head.shape)
                named = label_map_cells_by_tokens(queries, len(cells)) if queries == keys else ()
                panels = {f"{site.layer}.{number}": tuple(map(tuple, cells.tolist()))}
                found.append(MapPicture(f"head {site.layer}.{number}", panels, named))
        return found


def label_map_cells_by_tokens(tokens: Sequence[str], cells: int) -> tuple[str, ...]:
    """The tokens; of several that share a cell the first."""
    step = -(-len(tokens) // cells)
    return tuple(tokens) if step <= 1 else tuple(f"{token}…" for token in tokens[::step])


def coarsen_map_by_maximum(weights: NDArray[np.floating]) -> NDArray[np.float32]:
    """The map itself, or the largest weight of each square of tokens."""
    cells = weights.astype(np.float32)
    step = -(-max(cells.shape) // MOST_CELLS)
    if step == 1:
        return cells
    rows, columns = (-(-size // step) for size in cells.shape)
    room = np.zeros((rows * step, columns * step), np.float32)
    room[: cells.shape[0], : cells.shape[1]] = cells
    result: NDArray[np.float32] = room.reshape(rows, step, columns, step).max(axis=(1, 3))
    return result


def estimate_bytes_of_maps(
    shapes: Mapping[AttentionSite, MapShape], chosen: CollectedMaps, itemsize: int = 4
) -> tuple[int, int]:
    """How many heads are collected, and the bytes of their maps and masks."""
    selected = [
        (
            sum(
                chosen.selects(site.layer, head)
                for head in chosen.numbers.get(site, range(shape.heads))
            ),
            shape,
        )
        for site, shape in shapes.items()
        if chosen.layers is None or site.layer in chosen.layers
    ]
    cells = sum(
        (itemsize * heads + 1) * shape.queries * shape.keys for heads, shape in selected if heads
    )
    return sum(heads for heads, _ in selected), cells


def check_map_size(
    collected: CollectedMaps,
    shapes: Mapping[AttentionSite, MapShape],
    path: Path | None,
    say: Say,
    itemsize: int,
) -> None:
    """Announce the size of the maps, and refuse, before the work, what does not fit."""
    count, size = estimate_bytes_of_maps(shapes, collected, itemsize)
    if count == 0:
        raise UsageError("`layers` and `heads` leave no head whose map could be kept.")
    what = f"the maps of {count} head{'s' if count > 1 else ''} over {max(shape.queries for shape in shapes.values())} tokens"
    require_memory(2 * size, what, "choose fewer with `layers` and `heads`")
    if path is not None:
        require_writable_path(path)
        say(f"{what}: {format_short_number(size / 1e6, 3)} MB → {path}")
