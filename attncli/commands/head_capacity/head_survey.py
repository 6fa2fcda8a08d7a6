"""`attn head-capacity MODEL`: what its trained heads ask of a module, what they could show, what moves them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attncli.analysis import Progress, no_progress
from attncli.analysis.controls import RANDOM, SHUFFLED
from attncli.analysis.heads.model_heads import HeadSubject
from attncli.analysis.heads.rows.head_rows import site_keys
from attncli.analysis.layer_maps import groups, maps_of, own_attentions
from attncli.capture import Site
from attncli.commands.head_capacity.own_maps import OwnMap, own_map
from attncli.commands.head_capacity.random_patterns import RandomPatterns, dtype_of
from attncli.commands.head_capacity.survey_rows import (
    SURVEY_METRICS,
    VIEWS,
    ShownShares,
    SurveyedHead,
    findings,
    headline,
)
from attncli.errors import AttnError
from attncli.fits._types import FitRequest
from attncli.head_weights.head import Reader
from attncli.models.inputs.shuffled import shuffled
from attncli.models.inputs.texts import ModelInput, said_of_company
from attncli.models.loading.load import Checkpoint
from attncli.records import Report, Row

OWN = ""
"""The model itself, among its nulls."""

Maps = Mapping[Site, tuple[NDArray[Any], NDArray[Any] | None]]
"""Of an attention [head, query, key], and its visible keys."""


@dataclass(frozen=True)
class SurveyPlan:
    """What is asked of every head."""

    request: FitRequest
    methods: Sequence[str]
    widest: int
    seeds: Sequence[int]


@dataclass
class SeenHeads:
    """What the passes have shown, by attention."""

    own: dict[Site, list[OwnMap]] = field(default_factory=dict)
    windows: dict[Site, int] = field(default_factory=dict)
    changes: dict[tuple[str, str], list[NDArray[np.float64]]] = field(default_factory=dict)
    """By null and the attention's name: for each text and the next the heads' total variations."""

    def changed(self, what: str, site: Site, head: int) -> list[float]:
        return [float(each[head]) for each in self.changes.get((what, site.name), [])]

    def own_of(self, site: Site, head: int) -> OwnMap | str:
        if site in self.windows:
            return f"n/a: attends within {self.windows[site]} windows, so it has no one map"
        return self.own[site][head]


def head_survey(
    checkpoint: Checkpoint,
    subject: HeadSubject,
    twin: HeadSubject,
    texts: Sequence[ModelInput],
    read: Reader,
    plan: SurveyPlan,
    progress: Progress = no_progress,
) -> Report:
    """`texts` are of one length; `twin` is the same architecture with random weights."""
    sites = own_attentions(subject.shapes)
    total = 2 * sum(subject.shapes[site].heads for site in sites)  # their maps, then their weights
    seen = seen_heads(subject, twin, texts, plan, lambda done: progress(done, total, "heads"))
    patterns = RandomPatterns(texts[0].tokens, plan.request, plan.methods, plan.seeds)
    rows: list[Row] = []
    reasons: dict[str, None] = {}
    done = total // 2
    for site, keys in site_keys(sites, subject.stacks).items():
        for head in range(subject.shapes[site].heads):
            shown = shares(read, site.layer, head, patterns)
            if isinstance(shown, str):
                reasons[shown] = None
            nulls = {name: seen.changed(name, site, head) for name in (SHUFFLED, RANDOM)}
            own, moved = seen.own_of(site, head), seen.changed(OWN, site, head)
            rows += SurveyedHead(site.layer, head, keys, own, shown, moved, nulls).rows()
            progress(done := done + 1, total, "heads")
    identity = checkpoint.identity
    name = str(identity.get("name") or identity.get("path") or identity.get("class"))
    return Report(
        study="approximate heads",
        headline=headline(name, texts[0].tokens, rows),
        rows=tuple(rows),
        metrics=SURVEY_METRICS,
        source={**identity, "request": plan.request.described()},
        input={"texts": [{"name": text.name, "tokens": text.tokens} for text in texts]},
        seeds=tuple(plan.seeds),
        views=VIEWS,
        findings=tuple(findings(rows)),
        warnings=(
            *checkpoint.warnings,
            *said_of_company(texts),
            *(why.removeprefix("n/a: ") for why in reasons),
        ),
    )


def seen_heads(
    subject: HeadSubject,
    twin: HeadSubject,
    texts: Sequence[ModelInput],
    plan: SurveyPlan,
    tick: Callable[[int], None],
) -> SeenHeads:
    """A few layers at a time: their maps on each text, and those of the nulls."""
    seen = SeenHeads()
    mixed = [moved for text in texts if (moved := shuffled(text, plan.seeds[0]))]
    sites = own_attentions(subject.shapes)
    for group in groups(sites, subject.shapes, 2 * texts[0].tokens ** 2):
        names = {site.name for site in group}
        twins = [site for site in own_attentions(twin.shapes) if site.name in names]
        for place, maps in enumerate(each_map(seen, OWN, subject, group, texts)):
            if place == 0:
                add_own_maps(seen, maps, plan, tick)
        for _ in each_map(seen, SHUFFLED, subject, group, mixed):
            pass
        for _ in each_map(seen, RANDOM, twin, twins, texts):
            pass
    return seen


def each_map(
    seen: SeenHeads,
    what: str,
    subject: HeadSubject,
    sites: Sequence[Site],
    texts: Sequence[ModelInput],
) -> Iterator[Maps]:
    """The maps on one text after the other; what changes from one to the next is noted."""
    before: Mapping[str, NDArray[Any]] = {}
    for text in texts:
        found = maps_of(subject, sites, text.kwargs)
        seen.windows |= found.windows
        now = {site.name: maps for site, maps in found.maps.items()}
        for name in before.keys() & now.keys():
            if before[name].shape != now[name].shape:  # a decoder that says itself how long it is
                continue
            moved = seen.changes.setdefault((what, name), [])
            moved.append(variations(before[name], now[name]))
        yield {site: (maps, found.kept.visible.get(site)) for site, maps in found.maps.items()}
        before = now


def variations(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.float64]:
    """Of each head the mean over its queries of ½ Σ_j |A_ij - A'_ij|, a head at a time."""
    return np.array(
        [0.5 * np.abs(a - b).sum(axis=1).mean() for a, b in zip(first, second, strict=True)]
    )


def add_own_maps(
    seen: SeenHeads, maps: Maps, plan: SurveyPlan, tick: Callable[[int], None]
) -> None:
    for site, (weights, visible) in maps.items():
        causal = not np.triu(weights, 1).any()
        widest = min(plan.widest, max(1, weights.shape[1] - 1))
        seen.own[site] = []
        for head in weights:
            asked = own_map(head.astype(np.float64), visible, causal, widest, plan.request)
            seen.own[site].append(asked)
            tick(sum(map(len, seen.own.values())))


def shares(read: Reader, layer: int, head: int, patterns: RandomPatterns) -> ShownShares | str:
    """What the head shows of random patterns, from its weights in the files; or why it cannot be known."""
    try:
        held = read(layer, head)
        found = patterns.shares(held)
    except AttnError as error:
        return f"n/a: {error}"
    return ShownShares(held.d, dtype_of(held), len(patterns.seeds), found)
