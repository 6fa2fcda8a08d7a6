"""Attention maps in memory: numpy or torch arrays, such as the `attentions` of a model's output."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attncli.errors import UsageError

if TYPE_CHECKING:
    from attncli.capture.saved_maps.map_files import MapFile

HERE, MAPS = "these maps", "`maps`"
"""Names of the maps in a report and in error messages."""


def wrap_arrays_as_map_file(
    maps: object, batch: int | None, labels: Sequence[str] | None
) -> "MapFile":
    """Wrap arrays as a map file."""
    from attncli.capture.saved_maps.map_files import MapFile
    from attncli.capture.saved_maps.third_party_maps import ExternalMaps
    from attncli.io.in_memory_arrays import InMemoryArrays, iter_named_arrays, to_numpy

    named = iter_named_arrays(turn_iterators_into_lists(maps))
    arrays = {name: to_numpy(each, f"{MAPS}: {name}") for name, each in named}
    return MapFile(HERE, ExternalMaps(InMemoryArrays(MAPS, arrays, {}), batch), labels)


def turn_iterators_into_lists(maps: object) -> Any:
    """Make lists of iterators, which can be read only once; refuse what contains no array."""
    if isinstance(maps, Iterator):
        maps = list(maps)
    if all(each is None for each in iterate_nested_container_items(maps)):
        raise UsageError(
            f"{MAPS} holds no array. transformers' default attention, sdpa, returns none: load the model with "
            "attn_implementation='eager' and call it with output_attentions=True, or hand the model itself to "
            "attn.inspect_model."
        )
    from attncli.io.in_memory_arrays import has_shape

    if isinstance(maps, str | bytes) or not (has_shape(maps) or hasattr(maps, "__iter__")):
        from attncli.capture.saved_maps.third_party_maps import SHAPES

        raise UsageError(f"{MAPS} must be arrays, not {maps!r:.80}: {SHAPES}; or name a file.")
    return maps


def iterate_nested_container_items(maps: object) -> Iterator[Any]:
    """Yield the leaves of nested sequences and mappings."""
    if isinstance(maps, Mapping):
        maps = list(maps.values())
    if isinstance(maps, list | tuple):
        for each in maps:
            yield from iterate_nested_container_items(each)
    else:
        yield maps
