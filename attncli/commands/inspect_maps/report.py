"""`attn inspect-maps maps.safetensors`: the numbers of saved maps, as if the model ran again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from attncli.analysis.heads.classification.head_and_outlier_findings import build_findings
from attncli.analysis.heads.classification.head_roles import build_role_rows, classify_heads
from attncli.analysis.heads.forward_passes.head_observer import (
    HeadObserver,
    Look,
    PassRequest,
    PassResult,
    ignore_progress_share,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.head_selection import HeadSelection, sort_rows_by_head_ranking
from attncli.analysis.heads.map_export.attention_map_thumbnails import (
    Thumbnails,
    choose_thumbnail_size,
)
from attncli.analysis.heads.map_export.map_metadata import MapMetadata
from attncli.analysis.heads.metric_selection import MetricSelection
from attncli.analysis.heads.model_inspection import (
    HeadPlan,
    describe_attention_layers,
    describe_pair_or_ranges,
    format_headline,
)
from attncli.analysis.heads.report_rows.head_rows import (
    ON_RANDOM,
    HeadObservations,
    build_head_rows,
    row_keys_of_attention_sites,
    warn_about_heads_with_zero_maps,
    warn_unconverged_spectra,
)
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.analysis.heads.report_rows.token_pairs import token_pair_rows
from attncli.analysis.heads.report_tables import build_inspection_views
from attncli.capture import AttentionSite, MapShape, Strip, emit_map_rows_while_requested
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.capture.saved_maps.map_files import MapFile, SavedMap
from attncli.errors import InputError, UsageError, format_count, list_first_names
from attncli.progress import Progress, ignore_progress
from attncli.records import JsonObject, Report, Row, Scalar
from attncli.tolerances import FULL_ROW, SAVED_ROW_SUM


def inspect_maps(
    file: MapFile,
    plan: HeadPlan,
    progress: Progress = ignore_progress,
    small: Thumbnails | None = None,
    on_strip: Look | None = None,
) -> Report:
    """Measure the maps of a file; `small` and `on_strip` receive their strips too."""
    metadata = read_map_metadata(file)
    maps = [saved for saved in file.maps if plan.layers is None or saved.site.layer in plan.layers]
    saved_metrics = {row.metric for row in metadata.rows}
    shown = tuple(name for name in plan.metrics.heads if name not in saved_metrics)
    full_row = (FULL_ROW if file.own is None else SAVED_ROW_SUM).tolerance_for_dtype()
    request = PassRequest(shown, pairs=plan.metrics.pairs, full_row=full_row)
    looks = [*([small.accumulate_map_rows] if small else []), *([on_strip] if on_strip else [])]
    seen = observe_saved_maps(file, maps, request, progress, looks)
    numbers = {saved.site: saved.heads for saved in maps}
    own = HeadObservations([seen], numbers=numbers)
    names = {saved.site: saved.name for saved in maps}
    rows = list(build_report_rows_of_maps(own, plan, metadata, names))
    drawn = plan.metrics.repeated_token_metrics if metadata.roles_on == ON_RANDOM else ()
    heads = classify_heads(rows, drawn) if plan.metrics.roles else []
    unseen = "" if metadata.layers is None else metadata.layers.describe_unmeasured_mixers()
    headline = (
        build_findings(rows, heads, [file.token_labels], unseen, seen.tokens)
        if plan.metrics.roles
        else ()
    )
    keys = collect_row_keys_by_attention_layer(own, metadata, names)
    pairs = token_pair_rows(own, [read_token_names(file)], keys, plan.selects, plan.metrics.pairs)
    rows = [*build_role_rows(heads), *rows, *pairs]
    identity: JsonObject = {"kind": "maps", "path": str(file.path), "model": file.model_description}
    identity |= {} if file.own is None else {"read": file.own.describe_arrays_read_as_maps()}
    named, ranked_rows = read_token_names(file), sort_rows_by_head_ranking(rows, plan.ranking)
    return Report(
        study="inspect-model",
        headline=format_headline(
            identity,
            own,
            heads,
            [finding.about for finding in headline],
            select_measured_heads(file, plan, metadata),
            metadata.layers,
            [describe_pair_or_ranges(rows, heads, plan)],
        ),
        rows=tuple(ranked_rows),
        metrics=plan.metrics.metric_definitions(),
        source={**identity, "attention": describe_attention_layers(own)}
        | ({} if metadata.layers is None else {"layers": metadata.layers.describe()}),
        input={"tokens": seen.tokens, "roles_on": metadata.roles_on or "these maps"},
        views=tuple(build_inspection_views(rows, plan.metrics, plan.ranking, 1)),
        findings=headline,
        warnings=(
            *warn_about_head_roles_of_saved_maps(plan, metadata),
            *warn_about_unusual_maps(file),
            *warn_unconverged_spectra([seen]),
            *warn_about_heads_with_zero_maps([seen]),
        ),
        tiles=tuple(small.build_thumbnails(named, keys, numbers, ranked_rows)) if small else (),
    )


def build_map_thumbnails(file: MapFile, plan: HeadPlan) -> Thumbnails | None:
    """Thumbnails for an HTML page; head numbers come from the file."""
    shapes = {saved.site: MapShape(*saved.shape) for saved in file.maps}
    numbers = {saved.site: saved.heads for saved in file.maps}

    def choose_measured_heads(site: AttentionSite) -> list[int]:
        if plan.layers is not None and site.layer not in plan.layers:
            return []
        own = enumerate(numbers[site])
        return [place for place, number in own if plan.selects(site.layer, number)]

    side = choose_thumbnail_size(
        shapes, choose_measured_heads, True, plan.ranking.top if plan.ranking else None
    )
    return None if side is None else Thumbnails(side, choose_measured_heads)


def select_measured_heads(file: MapFile, plan: HeadPlan, metadata: MapMetadata) -> HeadSelection:
    """The measured heads out of all heads of the model, where the file states how many there are."""
    found = HeadSelection.count_selected_heads(
        {saved.site: saved.heads for saved in file.maps}, plan.layers, plan.selects
    )
    if metadata.of_heads is None or metadata.of_layers is None:
        return found
    return replace(found, of_layers=metadata.of_layers, of_heads=metadata.of_heads)


def refuse_metrics_not_in_file(file: MapFile, plan: HeadPlan) -> None:
    """Refuse a request for metrics that neither the maps nor the saved metadata have."""
    saved_metrics = {row.metric for row in read_map_metadata(file).rows}
    selection = plan.metrics
    if selection.states and not (
        selection.heads or selection.pairs or saved_metrics & set(selection.states)
    ):
        raise make_error_for_hidden_state_metrics(str(file.path), selection)


def make_error_for_hidden_state_metrics(place: str, selection: MetricSelection) -> UsageError:
    """The error for metrics that need more than maps."""
    return UsageError(
        f"there are only maps in {place}, and `metric` names what is measured on states, {list_first_names(selection.states)}: ask the model itself."
    )


def read_map_metadata(file: MapFile) -> MapMetadata:
    try:
        return MapMetadata.parse_map_metadata(file.metadata)
    except InputError as error:
        raise InputError(f"{file.path}: {error}") from None


def warn_about_head_roles_of_saved_maps(plan: HeadPlan, metadata: MapMetadata) -> Iterator[str]:
    if plan.metrics.roles and not metadata.roles_on:
        yield (
            "these roles come from the saved maps; a model's come from random tokens repeated twice, and may differ."
        )


def warn_about_unusual_maps(file: MapFile) -> Iterator[str]:
    """Warn about unusual maps of other programs; those of a captured model have been verified."""
    if file.own is None:
        return
    sums = file.find_smallest_row_sum_by_map()
    of = f"of {format_count(len(file.row_sums), 'layer')}"
    short = [least for least in sums.values() if least < 1.0 - SAVED_ROW_SUM.tolerance_for_dtype()]
    if short and not any(saved.site.is_differential_map for saved in file.maps):
        yield (
            f"rows of {len(short)} {of} sum to less than 1, the least to {min(short):.4g}: what is missing counts as a "
            "learned sink's; rows of padding should be cut off."
        )
    if file.slightly_ahead:
        most = max(file.slightly_ahead.values())
        yield (
            f"queries of {len(file.slightly_ahead)} {of} look ahead, by at most {most:.2g} of a row: all keys count as "
            "visible, and uniform attention is that of no mask; set such weights to 0 if there was one."
        )


def read_token_names(file: MapFile) -> TokenNames:
    return TokenNames(file.token_labels, file.decoder_token_labels)


def observe_saved_maps(
    file: MapFile,
    maps: list[SavedMap],
    request: PassRequest,
    progress: Progress,
    on_strip: Sequence[Look] = (),
) -> PassResult:
    """Show every map in strips to the observers; maps that need another round are read again."""
    observer = HeadObserver(
        request, UniformAttentionControl(), str(file.path), ignore_progress_share
    )

    def pass_map_rows_to_observers(site: AttentionSite, strip: Strip) -> bool:
        for look in on_strip:
            look(site, strip)
        return observer.observe_map_rows(site, strip)

    def pass_saved_map_to_observers(saved: SavedMap) -> None:
        emit_map_rows_while_requested(
            lambda _: file.iter_saved_map_rows(saved),
            partial(pass_map_rows_to_observers, saved.site),
        )

    with force_float64() if file.double else nullcontext():
        for done, saved in enumerate(maps):
            pass_saved_map_to_observers(saved)
            progress(done + 1, len(maps), "maps")
        observer.finish_attention_statistics()
    return observer.result


def build_report_rows_of_maps(
    own: HeadObservations, plan: HeadPlan, metadata: MapMetadata, names: Mapping[AttentionSite, str]
) -> Iterator[Row]:
    """Rows in the order of the metrics; saved rows of the run come first, else the maps are
    measured."""
    keys = collect_row_keys_by_attention_layer(own, metadata, names)
    saved_metrics = {row.metric for row in metadata.rows}
    for metric in plan.metrics.heads:
        if metric in saved_metrics:
            yield from metadata.select_saved_rows(metric, plan.layers, plan.selects)
        else:
            yield from build_head_rows((metric,), own, {}, keys, plan.selects)
    for metric in plan.metrics.states:
        yield from metadata.select_saved_rows(metric, plan.layers, plan.selects)


def collect_row_keys_by_attention_layer(
    own: HeadObservations, metadata: MapMetadata, names: Mapping[AttentionSite, str]
) -> dict[AttentionSite, dict[str, Scalar]]:
    """Keys that distinguish the heads of each attention: those that the run saved, else from the
    file."""
    return {
        site: dict(metadata.keys.get(names[site], found))
        for site, found in row_keys_of_attention_sites(own.attention_sites, ()).items()
    }
