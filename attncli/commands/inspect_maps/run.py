"""From the options of `attn inspect-maps` to its report."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from attncli.analysis import Study
from attncli.analysis.heads.head_selection import select_head_ranking
from attncli.analysis.heads.map_export.collected_maps import CollectedMaps, check_map_size
from attncli.analysis.heads.metric_selection import choose_metrics, is_weight_metric
from attncli.analysis.heads.model_inspection import HeadPlan
from attncli.analysis.heads.prepare_softmax_attention_heads import refuse_nonexistent_heads
from attncli.analysis.source_argument_checks import resolve_source_argument
from attncli.capture import MapShape
from attncli.capture.saved_maps.map_files import MapFile
from attncli.commands.inspect_maps.in_memory_maps import HERE, wrap_arrays_as_map_file
from attncli.commands.inspect_maps.map_file_formats import open_map_file
from attncli.commands.inspect_maps.report import (
    build_map_thumbnails,
    inspect_maps,
    make_error_for_hidden_state_metrics,
    read_token_names,
    refuse_metrics_not_in_file,
)
from attncli.errors import UsageError
from attncli.gates import Condition, refuse_gates_on_unmeasured_metrics
from attncli.io.token_label_files import read_token_labels
from attncli.models.loading.isolate_global_state import isolate_run_in_process
from attncli.options.head_selection import HeadOptions
from attncli.progress import Progress
from attncli.python.questions import RunContext
from attncli.records import Report

MOST_DRAWN = 6
"""Maps that a report takes along for figures where no heads are chosen."""


def plan_head_measurements(
    maps: object,
    names: Sequence[str],
    pairs: int,
    heads: HeadOptions,
    conditions: Sequence[Condition],
) -> HeadPlan:
    """Build the plan: metrics and heads; refuse metrics that maps cannot show."""
    refuse_weight_and_hidden_state_metrics(names)
    if not is_file_name_or_path(maps):
        refuse_hidden_state_metrics(names)
    metrics = choose_metrics(names, pairs)
    if conditions:
        refuse_gates_on_unmeasured_metrics(conditions, list(metrics.metric_definitions()))
    return HeadPlan(
        metrics,
        heads.choose_layers_to_measure(),
        heads.make_head_filter(),
        select_head_ranking(heads, metrics.heads),
    )


def prepare_map_inspection(
    maps: object,
    plan: HeadPlan,
    labels: Sequence[str] | None,
    batch: int | None,
    how: RunContext,
    draws: bool,
) -> Study:
    """Maps of a file, or arrays; `draws`: figures show the heads that were chosen, and not the first few."""
    isolate_run_in_process()
    file = open_map_file_or_arrays(maps, batch, labels, how)
    numbers = {saved.site: saved.heads for saved in file.maps}
    refuse_nonexistent_heads(numbers, plan)
    refuse_metrics_not_in_file(file, plan)
    small = build_map_thumbnails(file, plan) if how.maps or not is_file_name_or_path(maps) else None
    if not how.pictures or (is_file_name_or_path(maps) and not draws):
        return partial(inspect_maps, file, plan, small=small)
    collected = (
        make_collector_of_chosen_maps(file, plan) if draws else make_collector_of_first_maps(file)
    )
    if draws:
        shapes = {saved.site: MapShape(*saved.shape) for saved in file.maps}
        check_map_size(collected, shapes, None, how.say, 8 if file.double else 4)

    def inspect_maps_and_add_plots(progress: Progress) -> Report:
        report = inspect_maps(file, plan, progress, small, collected.accumulate_map_rows)
        return replace(report, pictures=tuple(collected.build_map_pictures(read_token_names(file))))

    return inspect_maps_and_add_plots


def is_file_name_or_path(maps: object) -> bool:
    return isinstance(maps, str | os.PathLike)


def open_map_file_or_arrays(
    maps: Any, batch: int | None, labels: Sequence[str] | None, how: RunContext
) -> MapFile:
    """The maps of a file, or arrays in memory."""
    tokens = resolve_token_labels(labels)
    if not is_file_name_or_path(maps):
        return wrap_arrays_as_map_file(maps, batch, tokens)
    return open_map_file(
        resolve_source_argument(os.fspath(maps), "inspect_maps", how.output), batch, tokens
    )


def resolve_token_labels(labels: Sequence[str] | None) -> Sequence[str] | None:
    """The tokens themselves, or those of the one file that is named."""
    if labels is None or len(labels) != 1:
        return labels
    path = Path(labels[0])
    return read_token_labels(path) if path.suffix or path.exists() else labels


def make_collector_of_chosen_maps(file: MapFile, plan: HeadPlan) -> CollectedMaps:
    return CollectedMaps(
        plan.layers, plan.selects, numbers={saved.site: saved.heads for saved in file.maps}
    )


def make_collector_of_first_maps(file: MapFile) -> CollectedMaps:
    """Collect as many maps as a figure draws."""
    numbers = {saved.site: saved.heads for saved in file.maps}
    places = [(site.layer, head) for site, heads in numbers.items() for head in heads]
    drawn = places[:MOST_DRAWN]
    return CollectedMaps(None, lambda layer, head: (layer, head) in drawn, numbers=numbers)


def refuse_hidden_state_metrics(names: Sequence[str]) -> None:
    """Refuse metrics of states for arrays; a file may contain them in its metadata."""
    for name in names:
        metrics = choose_metrics([name])
        if metrics.states and not metrics.heads:
            raise make_error_for_hidden_state_metrics(HERE, metrics)


def refuse_weight_and_hidden_state_metrics(names: Sequence[str]) -> None:
    """Refuse metrics of weights and states, which maps cannot show."""
    for name in names:
        if is_weight_metric(name):
            raise UsageError(
                f"`metric={name!r}` measures weights, and these are maps: ask `inspect_weights` of the model itself."
            )
