"""Attention maps that the caller has, measured as a model's own are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from attncli.declare.options import Argument, Option
from attncli.errors import UsageError
from attncli.options.completion import completion, head_metrics
from attncli.options.heads import GROUPS
from attncli.options.shared import separated
from attncli.python.question import How, question
from attncli.records import Report

if TYPE_CHECKING:
    from attncli.analysis.heads.map_export.collected_maps import KeptMaps
    from attncli.analysis.heads.metric_selection import Metrics
    from attncli.capture.saved_maps.map_files import MapFile

HERE, MAPS = "these maps", "`maps`"
"""What they are called in a report, and in what is said against them."""
MOST_DRAWN = 6
"""Maps that a report takes along for figures."""


@question()
def measure(
    *,
    maps: Annotated[
        Any,
        Argument(
            metavar="ARRAYS",
            help="[query, key], [head, query, key], [layer, head, query, key] or [layer, batch, head, query, key], or for each "
            "layer one [query, key], [head, query, key] or [batch, head, query, key].",
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        Argument(
            metavar="NAME,…",
            help="Names or groups of `attn list attention-metrics`. [default: what tells the heads' roles]",
            complete=completion(lambda: [*GROUPS, *head_metrics()]),
        ),
    ] = None,
    labels: Annotated[
        list[str] | None, Option(metavar="TOKEN,…", help="The tokens along both axes.")
    ] = None,
    pairs: Annotated[
        int,
        Option(
            metavar="N",
            help="How many of each head's strongest query ← key pairs to report. [default: none]",
        ),
    ] = 0,
    batch: Annotated[
        int | None, Option(metavar="N", help="Which text, where there are several, counted from 0.")
    ] = None,
    how: How,
) -> Report:
    """What attention maps show: numpy or torch arrays, such as the `attentions` of a model's output.

    Keys are taken for hidden where no head of a layer looks ahead.
    """
    from attncli.analysis.heads.model_heads import HeadPlan
    from attncli.capture.saved_maps.foreign_maps import OwnMaps
    from attncli.capture.saved_maps.map_files import MapFile
    from attncli.commands.inspect_maps.report import inspect_maps, names_in, small_maps_of
    from attncli.io.in_memory_arrays import HeldArrays, as_array, named_arrays
    from attncli.models.loading.isolate_global_state import alone

    plan = HeadPlan(chosen(separated(metrics or []), pairs))
    alone()
    named = named_arrays(whole(maps))
    arrays = {name: as_array(each, f"{MAPS}: {name}") for name, each in named}
    file = MapFile(HERE, OwnMaps(HeldArrays(MAPS, arrays, {}), batch), labels)
    small = small_maps_of(file, plan)
    if not how.pictures:
        return inspect_maps(file, plan, how.progress, small)
    kept = first_maps(file)
    report = inspect_maps(file, plan, how.progress, small, kept.take)
    return replace(report, pictures=tuple(kept.pictures(names_in(file))))


def first_maps(file: "MapFile") -> "KeptMaps":
    """As many as a figure draws."""
    from attncli.analysis.heads.map_export.collected_maps import KeptMaps

    numbers = {saved.site: saved.heads for saved in file.maps}
    places = [(site.layer, head) for site, heads in numbers.items() for head in heads]
    drawn = places[:MOST_DRAWN]
    return KeptMaps(None, lambda layer, head: (layer, head) in drawn, numbers=numbers)


def chosen(names: Sequence[str], pairs: int) -> "Metrics":
    """Metrics of maps: of states there is nothing to see."""
    from attncli.analysis.heads.metric_selection import choose, is_of_weights

    for name in names:
        if is_of_weights(name):
            raise UsageError(
                f"`metrics` names {name!r}, which is told of weights, and these are maps: ask inspect_model of the model itself, "
                "with `weights_only=True`."
            )
        alone = choose([name])
        if alone.states and not alone.heads:
            raise UsageError(
                f"`metrics` names {name!r}, which is told of states, and these are maps: ask inspect_model of the model itself."
            )
    return choose(names, pairs)


def whole(maps: Any) -> Any:
    """What can be gone through but once is held; what holds no array is refused."""
    if isinstance(maps, Iterator):
        maps = list(maps)
    if all(each is None for each in leaves(maps)):
        raise UsageError(
            f"{MAPS} holds no array. transformers' default attention, sdpa, returns none: load the model with "
            "attn_implementation='eager' and call it with output_attentions=True, or hand the model itself to "
            "attn.inspect_model."
        )
    from attncli.io.in_memory_arrays import has_shape

    if isinstance(maps, str | bytes) or not (has_shape(maps) or hasattr(maps, "__iter__")):
        from attncli.capture.saved_maps.foreign_maps import SHAPES

        raise UsageError(
            f"{MAPS} must be arrays, not {maps!r:.80}: {SHAPES}; of a file ask attn.inspect_model(FILE)."
        )
    return maps


def leaves(maps: Any) -> Iterator[Any]:
    """What sequences and mappings hold, down to the first thing that is neither."""
    if isinstance(maps, Mapping):
        maps = list(maps.values())
    if isinstance(maps, list | tuple):
        for each in maps:
            yield from leaves(each)
    else:
        yield maps
