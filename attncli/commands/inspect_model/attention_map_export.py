"""Maps collected while heads are measured: for a file, for plots, for a page."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from attncli.analysis import Study
from attncli.analysis.heads.forward_passes.head_observer import Look
from attncli.analysis.heads.map_export.attention_map_thumbnails import (
    Thumbnails,
    choose_thumbnail_size,
    make_head_selector,
)
from attncli.analysis.heads.map_export.collected_maps import CollectedMaps, check_map_size
from attncli.analysis.heads.map_export.map_metadata import MapMetadata
from attncli.analysis.heads.model_inspection import HeadPlan, Inspection, TakesMetadata
from attncli.analysis.heads.report_rows.head_rows import row_keys_of_attention_sites
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.capture import AttentionSite, Strip
from attncli.errors import UsageError
from attncli.io.atomic_files import write_atomically
from attncli.io.tensor_files import write_safetensors
from attncli.models.inputs.model_input import ModelInput
from attncli.progress import Progress, Say
from attncli.records import Facts

if TYPE_CHECKING:
    from attncli.records import Report, Scalar


def prepare_map_collection(
    subject: PreparedModel, plan: HeadPlan, text: ModelInput, save: Path | None, say: Say
) -> CollectedMaps:
    """Where the maps of the chosen heads are collected; refused if there are none, or too many."""
    if not subject.shapes:
        raise UsageError(
            "`save_maps` and pictures are of softmax heads, and the model has none: maps of linear layers are not kept."
        )
    collected = CollectedMaps(plan.layers, plan.selects, for_file=save is not None)
    shapes = subject.attention_shapes_at_length(text.tokens)
    check_map_size(collected, shapes, save, say, subject.bytes_per_weight)
    return collected


def save_or_plot_collected_maps(
    study: Inspection,
    collected: CollectedMaps,
    text: ModelInput,
    identity: Facts,
    save: Path | None,
    draws: bool,
) -> Study:
    """Return the same study, with the collected maps in a file, or as pictures of the report."""
    metadata: dict[str, str] = {}
    names = TokenNames.of_text(text)

    def collect_metadata_of_maps(
        found: MapMetadata, keys: Mapping[AttentionSite, Mapping[str, "Scalar"]]
    ) -> None:
        named = {name: keys[site] for site, name in collected.tensor_names_by_layer().items()}
        metadata.update(replace(found, keys=named).file_metadata)

    def run_study_and_save_maps(progress: Progress) -> "Report":
        metadata_of = collect_metadata_of_maps if save is not None else None
        report = study(
            on_strip=collected.accumulate_map_rows, progress=progress, take_metadata=metadata_of
        )
        if save is not None:
            metadata.update(collected.build_file_metadata(identity, names))
            write_atomically(
                save,
                lambda path: write_safetensors(path, collected.maps_by_tensor_name(), metadata),
            )
        pictures = collected.build_map_pictures(names) if draws else ()
        return replace(report, pictures=tuple(pictures))

    return run_study_and_save_maps


def add_map_thumbnails(
    study: Inspection, subject: PreparedModel, plan: HeadPlan, text: ModelInput, requested: bool
) -> Inspection:
    """Return the same study, with thumbnails of its heads in the report where they fit."""
    shapes = subject.attention_shapes_at_length(text.tokens)
    chosen = make_head_selector(plan.layers, plan.selects, shapes)
    side = choose_thumbnail_size(
        shapes, chosen, requested, plan.ranking.top if plan.ranking else None
    )
    if side is None:
        return study
    small, names = Thumbnails(side, chosen), TokenNames.of_text(text)

    def run_study_and_add_thumbnails(
        *,
        progress: Progress,
        on_strip: Look | None = None,
        take_metadata: TakesMetadata | None = None,
    ) -> "Report":
        def collect_map_rows_in_thumbnails(site: AttentionSite, strip: Strip) -> None:
            small.accumulate_map_rows(site, strip)
            if on_strip is not None:
                on_strip(site, strip)

        report = study(
            progress=progress, on_strip=collect_map_rows_in_thumbnails, take_metadata=take_metadata
        )
        keys = row_keys_of_attention_sites(small.sites, subject.stacks)
        return replace(report, tiles=tuple(small.build_thumbnails(names, keys, {}, report.rows)))

    return run_study_and_add_thumbnails
