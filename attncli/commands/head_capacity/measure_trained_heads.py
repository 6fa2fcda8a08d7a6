"""Study of `attn head-capacity MODEL`: widths of the heads' own maps, patterns they could show,
input dependence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncli.analysis.collect_whole_maps_by_layer import (
    capture_maps_of_layers,
    group_layers_to_fit_memory,
    self_attention_sites,
)
from attncli.analysis.heads.report_rows.head_rows import row_keys_of_attention_sites
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.capture import AttentionSite
from attncli.commands.head_capacity.head_report_rows import (
    SURVEY_METRICS,
    VIEWS,
    HeadCapacity,
    ReachableShares,
    build_head_capacity_findings,
    format_head_capacity_headline,
)
from attncli.commands.head_capacity.reachable_random_patterns import (
    RandomPatterns,
    dtype_of_stored_head_weights,
)
from attncli.commands.head_capacity.required_width_and_scale import (
    MapRequirements,
    measure_required_width_and_scale,
)
from attncli.errors import AttnError
from attncli.fits._fit_request_and_module import FitRequest
from attncli.head_weights.trained_head import Reader
from attncli.models.inputs.model_input import ModelInput, describe_inputs_besides_token_ids
from attncli.models.inputs.synthetic_texts import shuffle_tokens
from attncli.models.loading.loaded_model import LoadedModel
from attncli.progress import Progress, ignore_progress
from attncli.records import RANDOM, SHUFFLED, Report, Row

OWN = ""
"""The model itself, among its nulls."""

Maps = Mapping[AttentionSite, tuple[NDArray[Any], NDArray[Any] | None]]
"""Of an attention [head, query, key], and its visible keys."""


@dataclass(frozen=True)
class HeadCapacityPlan:
    """The measurements for every head."""

    request: FitRequest
    methods: Sequence[str]
    widest: int
    seeds: Sequence[int]


@dataclass
class MapMeasurements:
    """Results of the forward passes, by attention layer."""

    own: dict[AttentionSite, list[MapRequirements]] = field(default_factory=dict)
    windows: dict[AttentionSite, int] = field(default_factory=dict)
    changes: dict[tuple[str, str], list[NDArray[np.float64]]] = field(default_factory=dict)
    """By null and the attention's name: for each text and the next the heads' total variations."""

    def map_changes_between_texts(self, what: str, site: AttentionSite, head: int) -> list[float]:
        return [float(each[head]) for each in self.changes.get((what, site.name), [])]

    def required_width_and_scale_of_head(
        self, site: AttentionSite, head: int
    ) -> MapRequirements | str:
        if site in self.windows:
            return f"n/a: attends within {self.windows[site]} windows, so it has no one map"
        return self.own[site][head]


def measure_head_capacities(
    checkpoint: LoadedModel,
    subject: PreparedModel,
    random_init: PreparedModel,
    texts: Sequence[ModelInput],
    read: Reader,
    plan: HeadCapacityPlan,
    progress: Progress = ignore_progress,
) -> Report:
    """Survey all heads. `texts` have one length; `random_init` is the same architecture with random
    weights."""
    sites = self_attention_sites(subject.shapes)
    total = 2 * sum(subject.shapes[site].heads for site in sites)  # their maps, then their weights
    seen = measure_width_and_scale_on_texts(
        subject, random_init, texts, plan, lambda done: progress(done, total, "heads")
    )
    patterns = RandomPatterns(texts[0].tokens, plan.request, plan.methods, plan.seeds)
    rows: list[Row] = []
    reasons: dict[str, None] = {}
    done = total // 2
    for site, keys in row_keys_of_attention_sites(sites, subject.stacks).items():
        for head in range(subject.shapes[site].heads):
            shown = measure_reachable_pattern_shares(read, site.layer, head, patterns)
            if isinstance(shown, str):
                reasons[shown] = None
            nulls = {
                name: seen.map_changes_between_texts(name, site, head)
                for name in (SHUFFLED, RANDOM)
            }
            own, moved = (
                seen.required_width_and_scale_of_head(site, head),
                seen.map_changes_between_texts(OWN, site, head),
            )
            rows += HeadCapacity(
                site.layer, head, keys, own, shown, moved, nulls
            ).build_report_rows_of_head()
            progress(done := done + 1, total, "heads")
    identity = checkpoint.identity
    name = str(identity.get("name") or identity.get("path") or identity.get("class"))
    return Report(
        study="approximate heads",
        headline=format_head_capacity_headline(name, texts[0].tokens, rows),
        rows=tuple(rows),
        metrics=SURVEY_METRICS,
        source={**identity, "request": plan.request.describe_fit_request()},
        input={"texts": [{"name": text.name, "tokens": text.tokens} for text in texts]},
        seeds=tuple(plan.seeds),
        views=VIEWS,
        findings=tuple(build_head_capacity_findings(rows)),
        warnings=(
            *checkpoint.warnings,
            *describe_inputs_besides_token_ids(texts),
            *(why.removeprefix("n/a: ") for why in reasons),
        ),
    )


def measure_width_and_scale_on_texts(
    subject: PreparedModel,
    random_init: PreparedModel,
    texts: Sequence[ModelInput],
    plan: HeadCapacityPlan,
    advance: Callable[[int], None],
) -> MapMeasurements:
    """A few layers at a time: their maps on each text, and those of the nulls."""
    seen = MapMeasurements()
    mixed = [moved for text in texts if (moved := shuffle_tokens(text, plan.seeds[0]))]
    sites = self_attention_sites(subject.shapes)
    for group in group_layers_to_fit_memory(sites, subject.shapes, 2 * texts[0].tokens ** 2):
        names = {site.name for site in group}
        twins = [site for site in self_attention_sites(random_init.shapes) if site.name in names]
        for place, maps in enumerate(
            iterate_maps_and_record_changes(seen, OWN, subject, group, texts)
        ):
            if place == 0:
                measure_width_and_scale_for_maps(seen, maps, plan, advance)
        for _ in iterate_maps_and_record_changes(seen, SHUFFLED, subject, group, mixed):
            pass
        for _ in iterate_maps_and_record_changes(seen, RANDOM, random_init, twins, texts):
            pass
    return seen


def iterate_maps_and_record_changes(
    seen: MapMeasurements,
    what: str,
    subject: PreparedModel,
    sites: Sequence[AttentionSite],
    texts: Sequence[ModelInput],
) -> Iterator[Maps]:
    """Yield the maps of one text after the other, and record how they change from one to the next."""
    before: Mapping[str, NDArray[np.generic]] = {}
    for text in texts:
        found = capture_maps_of_layers(subject, sites, text.kwargs)
        seen.windows |= found.windows
        now = {site.name: maps for site, maps in found.maps_by_layer.items()}
        for name in before.keys() & now.keys():
            if before[name].shape != now[name].shape:  # a decoder that says itself how long it is
                continue
            moved = seen.changes.setdefault((what, name), [])
            moved.append(total_variation_between_maps(before[name], now[name]))
        yield {
            site: (maps, found.collected_maps.visible.get(site))
            for site, maps in found.maps_by_layer.items()
        }
        before = now


def total_variation_between_maps(
    first: NDArray[np.generic], second: NDArray[np.generic]
) -> NDArray[np.float64]:
    """Of each head the mean over its queries of ½ Σ_j |A_ij - A'_ij|, a head at a time."""
    return np.array(
        [0.5 * np.abs(a - b).sum(axis=1).mean() for a, b in zip(first, second, strict=True)]
    )


def measure_width_and_scale_for_maps(
    seen: MapMeasurements, maps: Maps, plan: HeadCapacityPlan, advance: Callable[[int], None]
) -> None:
    for site, (weights, visible) in maps.items():
        causal = not np.triu(weights, 1).any()
        widest = min(plan.widest, max(1, weights.shape[1] - 1))
        seen.own[site] = []
        for head in weights:
            requirements = measure_required_width_and_scale(
                head.astype(np.float64), visible, causal, widest, plan.request
            )
            seen.own[site].append(requirements)
            advance(sum(map(len, seen.own.values())))


def measure_reachable_pattern_shares(
    read: Reader, layer: int, head: int, patterns: RandomPatterns
) -> ReachableShares | str:
    """The random patterns that the head shows, from its weights in the files; or the reason why
    this is unknown."""
    try:
        loaded_head = read(layer, head)
        found = patterns.share_of_reachable_patterns(loaded_head)
    except AttnError as error:
        return f"n/a: {error}"
    return ReachableShares(
        loaded_head.query_key_width,
        dtype_of_stored_head_weights(loaded_head),
        len(patterns.seeds),
        found,
    )
