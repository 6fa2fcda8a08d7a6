"""Attention maps saved by other programs, recognised among arrays by their names and shapes.

What a shape means is never guessed: one array may be

    [query, key]                         one head
    [head, query, key]                   one layer
    [layer, head, query, key]            a model; with a choice of `batch`, [batch, head, query, key] of one layer
    [layer, batch, head, query, key]     several texts, of which `batch` names one

and several arrays are layers, named by their numbers (`attentions.3`), each [query, key], [head, query, key] or
[batch, head, query, key]. `encoder_attentions.0`, `decoder_attentions.0` and `cross_attentions.0` are those of an
encoder-decoder; arrays with the names of `--save-maps` keep these.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.capture.saved_maps.map_names import NAME
from attncli.errors import AttnError, InputError, UsageError, format_count
from attncli.io.in_memory_arrays import InMemoryArrays
from attncli.io.safetensors_arrays import StoredArrays

SHAPES = (
    "[query, key], [head, query, key], [layer, head, query, key] or [layer, batch, head, query, key] in one array, or for "
    "each layer an array [query, key], [head, query, key] or [batch, head, query, key] called attentions.0, attentions.1 …"
)
QUERY, KEY, HEAD, LAYER, BATCH = "query", "key", "head", "layer", "batch"
WHOLE = {
    2: (QUERY, KEY),
    3: (HEAD, QUERY, KEY),
    4: (LAYER, HEAD, QUERY, KEY),
    5: (LAYER, BATCH, HEAD, QUERY, KEY),
}
"""The axes of a single array by their number."""
OF_A_LAYER = {2: (QUERY, KEY), 3: (HEAD, QUERY, KEY), 4: (BATCH, HEAD, QUERY, KEY)}
ONE_NUMBER = re.compile(r"(?P<before>\D*)(?<!\.-)(?<!\A-)(?P<layer>\d{1,6})(?P<after>\D*)")
"""A name with one number; negative numbers name no layer: `layers.-1` does not, `layer-1` does."""
POSITIONAL = re.compile(r"arr_\d+")
"""numpy's names for arrays saved without one."""
SIDES = {
    "encoder_attentions": "encoder.layers.{}.attention",
    "decoder_attentions": "decoder.layers.{}.attention",
    "cross_attentions": "decoder.layers.{}.cross_attention",
}
"""transformers' names for the maps of an encoder-decoder, and those in files of maps."""


class MapLocation(NamedTuple):
    """The location of one layer's map in an array."""

    array: str
    lead: tuple[int, ...]
    """Its index along the array's first axes."""
    axes: tuple[str, ...]
    """All axes of the array."""
    shape: tuple[int, int, int]
    """[head, query, key]"""

    @property
    def has_no_head_axis(self) -> bool:
        return HEAD not in self.axes


class ExternalMaps:
    """Arrays of another program, under the names and in the shapes of a file of maps."""

    def __init__(
        self, arrays: StoredArrays | InMemoryArrays, batch: int | None = None, advice: str = ""
    ) -> None:
        """`batch`: which of several texts; `advice`: what else such a file may be."""
        self.arrays = arrays
        self.path = arrays.path
        self.advice = advice
        self.places = dict(self.iter_layer_map_locations(batch))
        if batch is not None and not any(BATCH in place.axes for place in self.places.values()):
            raise UsageError(
                f"`batch={batch}`: {self.path} has no axis of texts, it holds {self.describe_arrays_read_as_maps()}.",
                about=["batch"],
            )
        self.metadata = dict(arrays.metadata)

    def names(self) -> list[str]:
        return sorted(self.places)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.places[name].shape

    def dtype(self, name: str) -> str:
        return self.arrays.dtype(self.places[name].array)

    def require_readable(self, name: str) -> None:
        self.arrays.require_readable(self.places[name].array)

    def read_block(self, name: str, start: int, stop: int, axis: int = 0) -> NDArray[np.generic]:
        """Read entries `start` to `stop` of an axis, and all of the others."""
        place = self.places[name]
        if not place.has_no_head_axis:
            return self.arrays.read_block(place.array, start, stop, axis, place.lead)
        if axis == 0:
            return self.arrays.read_block(place.array, 0, place.shape[1], 0, place.lead)[None]
        return self.arrays.read_block(place.array, start, stop, axis - 1, place.lead)[None]

    def find_original_map_name(self, name: str) -> str:
        """The name of a map as the other program saved it."""
        place = self.places[name]
        return f"{place.array}, read as [{', '.join(place.axes)}],"

    def describe_arrays_read_as_maps(self) -> str:
        """Describe how arrays were read; of many arrays the first."""
        places = {place.array: place for place in self.places.values()}
        first = next(iter(places.values()))
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        return f"{first.array}{more} as [{', '.join(first.axes)}]"

    def iter_layer_map_locations(self, batch: int | None) -> Iterator[tuple[str, MapLocation]]:
        """Every layer's map under the name that a file of maps gives it."""
        shapes = {name: self.arrays.shape(name) for name in self.arrays.names()}
        usable = {name: shape for name, shape in shapes.items() if len(shape) >= 2}
        if not usable:
            raise self.make_unrecognised_arrays_error("no array of two axes or more", shapes)
        of_layers = self.find_one_layer_arrays(usable)
        if of_layers:
            for canonical, name in of_layers.items():
                axes = OF_A_LAYER.get(len(usable[name]))
                if axes is None:
                    raise self.make_unrecognised_arrays_error("", {name: usable[name]})
                yield canonical, self.locate_map_in_array(name, axes, usable[name], batch)
            return
        if len(usable) > 1:
            raise self.make_unrecognised_arrays_error("", usable)
        ((name, shape),) = usable.items()
        yield from self.iter_layers_of_single_array(name, shape, batch)

    def find_one_layer_arrays(self, usable: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
        """The arrays that are one layer each; none where a single one is all, or names are unclear."""
        own = {name: name for name in usable if NAME.fullmatch(name)}
        if own:
            return own
        numbered = {name: match for name in usable if (match := ONE_NUMBER.fullmatch(name))}
        if len(usable) == 1 and all(map(POSITIONAL.fullmatch, numbered)):
            return {}
        stems = {name: remove_number_from_name(match) for name, match in numbered.items()}
        if len(numbered) < len(usable) or not stems:
            return {}
        if len(set(stems.values())) == 1:
            crossing = "cross_" if "cross" in next(iter(stems.values())) else ""
            forms = dict.fromkeys(stems, f"layers.{{}}.{crossing}attention")
        elif set(stems.values()) <= set(SIDES):
            forms = {name: SIDES[stem] for name, stem in stems.items()}
        else:
            return {}
        found: dict[str, str] = {}
        for name, form in forms.items():
            canonical = form.format(int(numbered[name]["layer"]))
            if canonical in found:
                raise InputError(
                    f"{self.path}: {found[canonical]} and {name} are both layer {int(numbered[name]['layer'])}: give each layer one array."
                )
            found[canonical] = name
        return found

    def iter_layers_of_single_array(
        self, name: str, shape: tuple[int, ...], batch: int | None
    ) -> Iterator[tuple[str, MapLocation]]:
        """All layers of a single array."""
        axes = OF_A_LAYER[4] if batch is not None and len(shape) == 4 else WHOLE.get(len(shape))
        if axes is None:
            raise self.make_unrecognised_arrays_error("", {name: shape})
        if axes[0] != LAYER:
            yield "layers.0.attention", self.locate_map_in_array(name, axes, shape, batch)
            return
        for layer in range(shape[0]):
            yield (
                f"layers.{layer}.attention",
                self.locate_map_in_array(name, axes, shape, batch, (layer,)),
            )

    def locate_map_in_array(
        self,
        name: str,
        axes: tuple[str, ...],
        shape: tuple[int, ...],
        batch: int | None,
        lead: tuple[int, ...] = (),
    ) -> MapLocation:
        if 0 in shape:
            raise InputError(f"{self.path}: {name} has the shape {list(shape)} and holds nothing.")
        if BATCH in axes:
            lead += (self.choose_batch_item(name, shape[axes.index(BATCH)], batch),)
        last = shape[len(lead) :]
        return MapLocation(name, lead, axes, (last[0] if HEAD in axes else 1, last[-2], last[-1]))

    def choose_batch_item(self, name: str, texts: int, batch: int | None) -> int:
        """Choose one text of an array of several."""
        if batch is None and texts > 1:
            raise UsageError(
                f"{self.path}: {name} holds {texts} texts: name one of 0 … {texts - 1} with `batch`."
            )
        if batch is not None and not 0 <= batch < texts:
            raise UsageError(f"`batch={batch}`: {name} holds the texts 0 … {texts - 1}.")
        return batch or 0

    def make_unrecognised_arrays_error(
        self, why: str, shapes: Mapping[str, tuple[int, ...]]
    ) -> AttnError:
        """Refuse the arrays: list what is there, and what would be read."""
        named = [f"{name} {list(shape)}" for name, shape in list(shapes.items())[:3]]
        more = f" and {len(shapes) - 3} more" if len(shapes) > 3 else ""
        holds = why or f"{', '.join(named)}{more}"
        return InputError(
            f"{self.path} holds {holds}: which are attention maps cannot be told. What is read is {SHAPES}{self.advice}."
        )


def remove_number_from_name(match: re.Match[str]) -> str:
    """A name without its number."""
    return (match["before"].rstrip("._-[ ") + match["after"].rstrip("] ")).lower()


def refuse_mismatched_token_labels(
    labels: Sequence[str], shapes: Sequence[tuple[int, int, int]]
) -> None:
    """Refuse labels that fit no map's number of tokens: they belong to another text."""
    sides = sorted({size for _, queries, keys in shapes for size in (queries, keys)})
    if len(labels) not in sides:
        tokens = format_count(sides[-1], "token")
        raise UsageError(
            f"`labels` names {format_count(len(labels), 'token')}, and the maps have {' or '.join([*map(str, sides[:-1]), tokens])}: "
            "give each token a name."
        )
