"""Rows of forward passes: one per metric and head, with its controls and its standard deviation
over the texts."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from attncli.analysis.heads.forward_passes.head_observer import PassResult
from attncli.analysis.means_and_confidence_intervals import UNRESOLVED, summarize_values
from attncli.capture import AttentionSite
from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.softmax_attention.attention_site_names import find_block_stack_of_attention
from attncli.errors import format_count
from attncli.metrics.activations._activation_state import ActivationPeak
from attncli.metrics.attention import ATTENTION, is_metric_of_map_alone
from attncli.metrics.attention._map_spectrum import ROUNDS, STILL
from attncli.records import NOT_APPLICABLE, UNIFORM, Row, Scalar

ON_REPEATS = "roles"
"""The group of metrics that are taken from random tokens repeated twice."""
ON_RANDOM = "random tokens repeated twice"
"""Label of these texts in a report."""

SILENT = f"{NOT_APPLICABLE}no row of the head holds any weight"

Keeps = Callable[[int, int], bool]
"""Whether a head of a layer is reported."""


@dataclass
class HeadObservations:
    """All that was seen of one model on one kind of text."""

    texts: list[PassResult] = field(default_factory=list)
    repeated_token_passes: list[PassResult] = field(default_factory=list)
    """Results on repeated random tokens; empty where the model reads none."""
    generated_text_passes: dict[str, list[PassResult]] = field(default_factory=dict)
    """Results by the kind of generated text; empty where the model reads none."""
    numbers: Mapping[AttentionSite, Sequence[int]] = field(default_factory=dict)
    """The true numbers of the heads, where not all of an attention are there."""
    batches_differ: bool = False
    """Whether a text has other numbers in a batch than alone, so that each was run by itself."""

    def passes_with_metric(self, metric: str) -> list[PassResult]:
        """Where a metric is taken from."""
        if (
            ATTENTION.declaration_of_entry(metric).group == ON_REPEATS
            and self.repeated_token_passes
        ):
            return self.repeated_token_passes
        return self.generated_text_passes.get(
            ATTENTION.declaration_of_entry(metric).text, self.texts
        )

    def metrics_on_generated_tokens(
        self, on_repeats: Sequence[str], on_made: Mapping[str, Sequence[str]]
    ) -> frozenset[str]:
        """The metrics that were measured on tokens drawn for them."""
        names = [*on_repeats] if self.repeated_token_passes else []
        return frozenset(names).union(*(on_made[kind] for kind in self.generated_text_passes))

    @property
    def attention_sites(self) -> list[AttentionSite]:
        return list(dict.fromkeys(site for seen in self.texts for site in seen.heads))

    def metric_values_by_text(
        self, site: AttentionSite, metric: str, nulls: bool = False
    ) -> "list[Tensor] | str":
        """[head, …] for each text, or the reason why there is none."""
        observed = [seen.nulls if nulls else seen.heads for seen in self.passes_with_metric(metric)]
        values = [of[site].get(metric, "") for of in observed if site in of]
        reason = next((value for value in values if isinstance(value, str)), None)
        return reason if reason is not None else [v for v in values if isinstance(v, Tensor)]

    def find_heads_with_zero_maps(self, site: AttentionSite, metric: str = "") -> set[int]:
        """The heads whose map has only zero weights on some text that the metric uses."""
        passes = self.passes_with_metric(metric) if metric else self.texts
        silent_by_pass = [seen.silent[site].tolist() for seen in passes if site in seen.silent]
        return {
            head for silent in silent_by_pass for head, is_silent in enumerate(silent) if is_silent
        }

    def singular_value_shortfall(self, site: AttentionSite) -> Tensor:
        """[head]: relative error by which singular values may be too small."""
        return torch.stack([seen.short[site] for seen in self.texts]).amax(dim=0)


def row_keys_of_attention_sites(
    sites: Sequence[AttentionSite], stacks: Sequence[BlockStack]
) -> dict[AttentionSite, dict[str, Scalar]]:
    """Row keys that distinguish attention layers of the same number; empty where they are
    unambiguous."""
    names = name_stacks_of_attention_sites(sites, stacks)
    spans = {site.span for site in sites if not site.is_linear_attention}
    several = {
        "stack": len(set(names.values())) > 1,
        "kind": len({site.kind for site in sites}) > 1,
        "span": len(spans) > 1,
    }
    return {
        site: {
            key: value
            for key, value in (("stack", names[site]), ("kind", site.kind), ("span", site.span))
            if several[key] or (key == "span" and site.is_linear_attention)
        }
        for site in sites
    }


def name_stacks_of_attention_sites(
    sites: Sequence[AttentionSite], stacks: Sequence[BlockStack]
) -> dict[AttentionSite, str]:
    """The name of the stack of blocks that attentions belong to, where both count all of their layers alike."""
    found: dict[str, set[str]] = defaultdict(set)
    for site in sites:
        found[site.stack].add(find_block_stack_of_attention(site, stacks))
    return {
        site: min(names) if len(names := found[site.stack]) == 1 else site.stack for site in sites
    }


def build_head_rows(
    metrics: Sequence[str],
    observed: HeadObservations,
    nulls: Mapping[str, HeadObservations],
    keys: Mapping[AttentionSite, dict[str, Scalar]],
    selects: Keeps,
) -> Iterator[Row]:
    """Build the rows; `nulls`: observations of the controls, by the row's key for their means."""
    for metric in metrics:
        for site in observed.attention_sites:
            found = observed.metric_values_by_text(site, metric)
            if isinstance(found, str):
                yield Row(
                    metric,
                    None,
                    ATTENTION.declaration_of_entry(metric).unit,
                    layer=site.layer,
                    note=found,
                    keys=keys[site],
                )
            else:
                extra_rows = {
                    UNIFORM: reduce_metric_over_texts(
                        metric, observed.metric_values_by_text(site, metric, nulls=True)
                    ),
                    **{
                        name: reduce_metric_over_texts(
                            metric, null.metric_values_by_text(site, metric)
                        )
                        for name, null in nulls.items()
                    },
                }
                numbers = observed.numbers.get(site, range(len(found[0])))
                spectrum = ATTENTION.declaration_of_entry(metric).of == "spectrum"
                short = observed.singular_value_shortfall(site) if spectrum else None
                silent = (
                    observed.find_heads_with_zero_maps(site, metric)
                    if is_metric_of_map_alone(metric)
                    else ()
                )
                for row in build_rows_of_attention_site(
                    metric, site, found, extra_rows, keys[site], selects, numbers
                ):
                    if numbers.index(row.head) in silent:
                        yield replace(row, note=SILENT)
                    elif short is not None:
                        yield note_unconverged_singular_values(row, short, numbers)
                    else:
                        yield row if row.value is not None else explain_missing_head_metric(row)


def build_rows_of_attention_site(
    metric: str,
    site: AttentionSite,
    tensors: "list[Tensor]",
    extra_rows: "Mapping[str, Tensor | None]",
    keys: dict[str, Scalar],
    selects: Keeps,
    numbers: Sequence[int],
) -> Iterator[Row]:
    """Rows of the heads of one attention layer; a metric with an axis of its own has a row per
    index."""
    axis = ATTENTION.declaration_of_entry(metric).axis
    places: Sequence[int | None] = range(tensors[0].shape[1]) if axis else (None,)
    values = torch.stack(tensors).cpu()
    values = values.where(values.isfinite(), math.nan)
    controls = {name: value.tolist() for name, value in extra_rows.items() if value is not None}
    for head, true_number in enumerate(numbers):
        if not selects(site.layer, true_number):
            continue
        for place in places:
            nulls = {
                name: select_head_value(value, head, place) for name, value in controls.items()
            }
            yield summarize_values(
                metric,
                ATTENTION.declaration_of_entry(metric).unit,
                values[(slice(None), head, *(() if place is None else (place,)))].tolist(),
                "",
                keys={
                    **keys,
                    **({} if place is None else {axis: place}),
                    **{name: value for name, value in nulls.items() if value is not None},
                },
                take=ATTENTION.declaration_of_entry(metric).take,
                layer=site.layer,
                head=true_number,
            )


def explain_missing_head_metric(row: Row) -> Row:
    """Give the metric's own reason where a head has no such number."""
    undefined = ATTENTION.declaration_of_entry(row.metric).undefined
    return replace(row, note=NOT_APPLICABLE + undefined) if undefined else row


def note_unconverged_singular_values(row: Row, short: "Tensor", numbers: Sequence[int]) -> Row:
    """Note on a number that its iteration had not converged."""
    share = float(short[numbers.index(row.head)])
    if share <= STILL:
        return row
    note = f"not settled after {ROUNDS} rounds: s1 or s2 may be {share:.1%} too small"
    return replace(row, note=note)


def warn_unconverged_spectra(texts: Sequence[PassResult]) -> Iterator[str]:
    """A warning where iterations ran out of rounds; tables do not show the notes of single numbers."""
    shares = [share for seen in texts for short in seen.short.values() for share in short.tolist()]
    unsettled = [share for share in shares if share > STILL]
    if unsettled:
        yield (
            f"singular values of {len(unsettled)} of {format_count(len(shares), 'map')} had not settled after {ROUNDS} rounds: s1 or s2 "
            f"may be up to {max(unsettled):.1%} too small, and their rows say so."
        )


def warn_about_heads_with_zero_maps(texts: Sequence[PassResult]) -> Iterator[str]:
    """A warning where heads do not attend at all."""
    silent = [sum(int(each.sum()) for each in seen.silent.values()) for seen in texts]
    if any(silent):
        most = max(silent)
        holds = (
            "head holds no weight in any row: it has no role and no numbers"
            if most == 1
            else "heads hold no weight in any row: they have no role and no numbers"
        )
        yield f"{most} {holds}."


def reduce_metric_over_texts(metric: str, tensors: "list[Tensor] | str") -> "Tensor | None":
    """Reduce over all texts: the mean, or the maximum or minimum of an extreme metric."""
    if isinstance(tensors, str) or not tensors:
        return None
    take = ATTENTION.declaration_of_entry(metric).take
    if take != "mean":
        every = torch.stack(tensors)
        return every.amax(dim=0) if take == "max" else every.amin(dim=0)
    total: Tensor = sum(tensors[1:], tensors[0])
    return total / len(tensors)


def select_head_value(value: Sequence[Any], head: int, place: int | None) -> float | None:
    """One head's number; uniform attention has one head for all."""
    own = value[head if len(value) > 1 else 0]
    picked = float(own if place is None else own[place])
    return picked if math.isfinite(picked) else None


def build_state_rows(
    metrics: Mapping[str, str], observed: HeadObservations, nulls: Mapping[str, HeadObservations]
) -> Iterator[Row]:
    """Rows of the states of every stack; the largest activation with its position. `metrics`: with their units."""
    places = list(dict.fromkeys(place for seen in observed.texts for place in seen.states))
    several = len({stack for stack, _ in places}) > 1
    for metric, unit in metrics.items():
        for stack, layer in places:
            values = [seen.states[stack, layer][metric] for seen in observed.texts]
            keys: dict[str, Scalar] = {"stack": stack} if several else {}
            if metric == "max_activation":
                keys |= locate_largest_value(
                    [seen.peaks[stack, layer] for seen in observed.texts], values
                )
            for name, null in nulls.items():
                others = [seen.states[stack, layer][metric] for seen in null.texts]
                keys |= (
                    {name: math.fsum(others) / len(others)} if are_all_values_finite(others) else {}
                )
            yield summarize_values(metric, unit, values, UNRESOLVED, keys=keys, layer=layer)


def locate_largest_value(
    peaks: Sequence[ActivationPeak], values: Sequence[float]
) -> dict[str, Scalar]:
    """Locate the largest value of all texts; with several texts, also which one and how large."""
    text = max(range(len(values)), key=lambda index: values[index])
    place = {name: value for name, value in peaks[text]._asdict().items() if value is not None}
    return place | ({"text": text, "largest": values[text]} if len(values) > 1 else {})


def are_all_values_finite(values: Sequence[float]) -> bool:
    return bool(values) and all(map(math.isfinite, values))
