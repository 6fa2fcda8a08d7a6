"""Saved attention maps: `layers.{l}.attention` [head, query, key] in safetensors, one tensor for each attention.

    {stack}.layers.{l}.attention     where a model has several stacks; `cross_attention` between two of them,
                                     `difference_attention` for the map that differential attention applies
    layers.{l}.visible               [query, key], 1 where the mask leaves the key; none where it leaves every key

The metadata hold the model's identity and, under `heads`, the true numbers of the heads in each tensor. Files of other
programs may lack all but the maps: keys are then hidden where no head of the layer looks ahead.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attncli.capture import AttentionSite, Strip
from attncli.capture.saved_maps.map_names import (
    NAME,
    PLAIN,
    make_map_name_sort_key,
    name_visible_keys_tensor,
)
from attncli.capture.saved_maps.third_party_maps import ExternalMaps, refuse_mismatched_token_labels
from attncli.capture.softmax_attention.attention_site_names import SELF
from attncli.errors import InputError, format_count
from attncli.forward_argument_types import Output
from attncli.io.safetensors_arrays import StoredArrays
from attncli.records import JsonObject
from attncli.tolerances import SAVED_HIDDEN_WEIGHT, SAVED_ROW_SUM

ELEMENTS = 2**22
"""Numbers of a strip that is read at a time."""


@dataclass(frozen=True)
class SavedMap:
    """One attention in a file."""

    name: str
    site: AttentionSite
    heads: tuple[int, ...]
    """True numbers of the heads in it."""
    shape: tuple[int, int, int]
    double: bool
    """Whether it is in float64."""
    causal: bool
    """Whether it has no mask, and no head attends to later tokens."""


class MapFile:
    """A file of maps, read a strip at a time."""

    def __init__(
        self, path: Path | str, own: ExternalMaps | None = None, labels: Sequence[str] | None = None
    ) -> None:
        """`own`: maps of other programs, or the user's arrays; `labels`: the tokens along both sides."""
        self.path = path
        self.own = own
        self.file = StoredArrays(Path(path)) if own is None else own
        self.metadata: dict[str, str] = dict(self.file.metadata)
        self.slightly_ahead: dict[str, float] = {}
        """Maps with a slight weight on later tokens, and how much."""
        self.row_sums: dict[str, tuple[Tensor, Tensor]] = {}
        """For every map that was read, [head]: the least sum of a row, and the largest magnitude of one."""
        if labels is not None:
            self.metadata |= {"tokens": json.dumps(list(labels)), "decoder_tokens": "[]"}
        self.names = set(self.file.names())
        try:
            places = {name: place for place, name in enumerate(self.read_metadata_value("heads"))}
            ordered = sorted(
                self.names, key=lambda name: (places.get(name, -1), make_map_name_sort_key(name))
            )
            maps = [self.parse_saved_map(name) for name in ordered]
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} cannot be read as saved maps: {error}.") from None
        self.maps = [each for each in maps if each is not None]
        self.double = any(each.double for each in self.maps)
        """Whether any map is in float64: then all are measured in it."""
        self.refuse_duplicate_layer_numbers()
        if labels is not None:
            refuse_mismatched_token_labels(labels, [saved.shape for saved in self.maps])
        if not self.maps:
            raise InputError(
                f"{path} holds no attention maps: they are called layers.0.attention [head, query, key]."
            )

    def refuse_duplicate_layer_numbers(self) -> None:
        """Refuse two tensors with one layer number: `layers.0.attention` and `layers.00.attention`."""
        known: dict[tuple[str, str, int], SavedMap] = {}
        for saved in self.maps:
            other = known.setdefault(saved.site.stack_name_kind_and_layer, saved)
            if other is not saved:
                raise InputError(
                    f"{self.path}: {other.name} and {saved.name} are both the {saved.site.kind} attention of layer "
                    f"{saved.site.layer}: give each layer one tensor."
                )

    @property
    def model_description(self) -> JsonObject:
        """The metadata's description of the model."""
        found: JsonObject = self.read_metadata_value("model")
        return found

    @property
    def token_labels(self) -> tuple[str, ...]:
        return tuple(self.read_metadata_value("tokens", list, str))

    @property
    def decoder_token_labels(self) -> tuple[str, ...]:
        """The tokens that the decoder of an encoder-decoder has read."""
        return tuple(self.read_metadata_value("decoder_tokens", list, str))

    def read_metadata_value(self, key: str, kind: type[Any] = dict, of: type = object) -> Output:
        """The JSON value of a metadata key; None where it is missing."""
        try:
            found = json.loads(self.metadata.get(key, "null"))
        except (ValueError, RecursionError):
            found = self.metadata
        found = kind() if found is None else found
        if not isinstance(found, kind) or not all(isinstance(each, of) for each in found):
            raise InputError(
                f"{self.path} cannot be read as saved maps: '{key}' in its metadata is none of ours."
            )
        return found

    def parse_saved_map(self, name: str) -> SavedMap | None:
        match = NAME.fullmatch(name)
        if match is None:
            return None
        shape = self.file.shape(name)
        if len(shape) != 3 or 0 in shape:
            raise ValueError(f"{name} has the shape {list(shape)}, not [head, query, key]")
        self.file.require_readable(name)
        seen = name_visible_keys_tensor(name)
        if seen in self.names and self.file.shape(seen) != shape[1:]:
            raise ValueError(
                f"{seen} has the shape {list(self.file.shape(seen))}, not [query, key]"
            )
        heads = self.list_head_numbers(name, shape[0])
        kind = (match["kind"] or SELF).strip("_").replace("_", " ")
        spans = self.read_metadata_value("spans")
        site = AttentionSite(
            match["stack"] or PLAIN, int(match["layer"]), kind, str(spans.get(name, "full")), name
        )
        unsaid = seen not in self.names and "heads" not in self.metadata
        shape = (shape[0], shape[1], shape[2])
        ahead = compute_weight_on_future_keys(self.file, name, shape) if unsaid else math.inf
        if 0.0 < ahead <= SAVED_HIDDEN_WEIGHT.tolerance_for_dtype():
            self.slightly_ahead[name] = ahead
        causal = ahead == 0.0
        return SavedMap(name, site, heads, shape, self.file.dtype(name) == "F64", causal)

    def list_head_numbers(self, name: str, count: int) -> tuple[int, ...]:
        """The true numbers of a map's heads, by the metadata."""
        saved = self.read_metadata_value("heads").get(name) or list(range(count))
        whole = isinstance(saved, list) and all(type(each) is int and each >= 0 for each in saved)
        if not whole or len(set(saved)) != count or len(saved) != count:
            raise ValueError(f"{name} has {format_count(count, 'head')}, the metadata name others")
        return tuple(saved)

    def iter_saved_map_rows(self, saved: SavedMap) -> Iterator[Strip]:
        """All rows of a map, in order."""
        heads, queries, keys = saved.shape
        step = max(1, ELEMENTS // (heads * keys))
        total = 1.0
        for start in range(0, queries, step):
            stop = min(start + step, queries)
            weights = convert_weights_to_tensor(
                self.file.read_block(saved.name, start, stop, axis=1)
            )
            weights = weights.double() if self.double else weights  # one dtype for all later steps
            if start == 0 and saved.site.is_differential_map:
                total = float(weights[0, 0].sum())
            self.check_attention_weights(saved, weights, start, total)
            seen = self.read_visible_keys(saved, start, stop)
            if seen is not None and not saved.causal and not saved.site.is_differential_map:
                self.check_hidden_keys_have_no_weight(saved, weights, seen[0, 0], start)
            yield Strip(weights[None], start, 0, queries, keys, seen, total=total)

    def read_visible_keys(self, saved: SavedMap, start: int, stop: int) -> Tensor | None:
        name = name_visible_keys_tensor(saved.name)
        if name in self.names:
            numbers = self.file.read_block(name, start, stop)
            if not np.isfinite(numbers).all():
                raise InputError(f"{self.path}: {name} holds what is neither 1 nor 0.")
            return torch.from_numpy(numbers != 0)[None, None]
        if saved.causal:
            return make_causal_visible_key_mask(start, stop, saved.shape[2])[None, None]
        return None

    def check_attention_weights(
        self, saved: SavedMap, weights: Tensor, start: int, total: float
    ) -> None:
        """Refuse numbers that are no attention, with their position; a difference of two maps has both signs."""
        sums = weights.sum(dim=-1)
        self.record_extreme_row_sums(saved.name, sums)
        if saved.site.is_differential_map:
            wrong = ~((sums - total).abs() <= SAVED_ROW_SUM.tolerance_for_dtype())
        else:
            wrong = ~(
                (sums <= total + SAVED_ROW_SUM.tolerance_for_dtype())
                & (weights.amin(dim=-1) >= 0.0)
            )
        if bool(wrong.any()):
            head, row = wrong.nonzero()[0].tolist()
            called = saved.name if self.own is None else self.own.find_original_map_name(saved.name)
            raise InputError(
                f"{self.path}: row {start + row} of head {saved.heads[head]} in {called} is no attention: "
                f"it sums to {float(sums[head, row]):.4g}, or has a negative weight."
            )

    def check_hidden_keys_have_no_weight(
        self, saved: SavedMap, weights: Tensor, seen: Tensor, start: int
    ) -> None:
        """Check that hidden keys have no weight; a row that sees no key may be uniform, as softmax makes it."""
        hidden = weights.abs().masked_fill(seen, 0.0).sum(dim=-1)
        wrong = (hidden > SAVED_HIDDEN_WEIGHT.tolerance_for_dtype()) & seen.any(dim=-1)
        if not bool(wrong.any()):
            return
        head, row = wrong.nonzero()[0].tolist()
        raise InputError(
            f"{self.path}: row {start + row} of head {saved.heads[head]} in {saved.name} has {float(hidden[head, row]):.4g} of its "
            f"weight on keys that {name_visible_keys_tensor(saved.name)} hides: one of them is of another text."
        )

    def record_extreme_row_sums(self, name: str, sums: Tensor) -> None:
        """Add the sums of rows [head, query] of a map."""
        least, largest = sums.amin(dim=-1), sums.abs().amax(dim=-1)
        if name in self.row_sums:
            before = self.row_sums[name]
            least, largest = least.minimum(before[0]), largest.maximum(before[1])
        self.row_sums[name] = least, largest

    def find_smallest_row_sum_by_map(self) -> dict[str, float]:
        """The least row sum of every map, except for heads without any weight."""
        own = {name: least[largest > 0.0] for name, (least, largest) in self.row_sums.items()}
        return {name: float(least.min()) for name, least in own.items() if len(least)}


def make_causal_visible_key_mask(start: int, stop: int, keys: int) -> Tensor:
    """[query, key]: keys up to the query itself."""
    return torch.arange(keys) <= torch.arange(start, stop)[:, None]


def convert_weights_to_tensor(weights: NDArray[np.generic]) -> Tensor:
    """Keep float64, convert everything else to float32."""
    wide = weights.dtype == np.float64
    return torch.from_numpy(weights if wide else weights.astype(np.float32))


def compute_weight_on_future_keys(
    file: StoredArrays | ExternalMaps, name: str, shape: tuple[int, ...]
) -> float:
    """The largest share of a row above the diagonal of a square map; infinite where it exceeds the tolerance."""
    _, queries, keys = shape
    if queries != keys or keys < 2:
        return math.inf
    step = max(1, ELEMENTS // (shape[0] * keys))
    largest = 0.0
    for start in range(0, queries, step):
        stop = min(start + step, queries)
        ahead = ~make_causal_visible_key_mask(start, stop, keys).numpy()
        later = np.where(ahead, np.abs(file.read_block(name, start, stop, axis=1)), 0.0)
        found = float(later.sum(axis=-1).max())
        if not found <= SAVED_HIDDEN_WEIGHT.tolerance_for_dtype():
            return math.inf
        largest = max(largest, found)
    return largest
