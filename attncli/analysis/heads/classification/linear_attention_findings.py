"""The heads of linear layers: which are measured, how exact their maps are, and how they compare
with softmax heads."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from attncli.analysis.heads.classification.head_roles import ClassifiedHead, describe_roles
from attncli.analysis.heads.report_rows.head_rows import HeadObservations
from attncli.analysis.heads.report_rows.token_pair_and_completeness_definitions import (
    COMPLETENESS,
    DEFINITIONS,
)
from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.capture import AttentionSite
from attncli.capture.linear_attention.linear_attention_heads import (
    LinearAttentionHeads,
    LinearAttentionLayers,
)
from attncli.capture.other_mixers.token_mixers import format_layer_numbers, pluralise_mixer_kind
from attncli.errors import format_count
from attncli.maths.number_format import format_number
from attncli.records import Definition, Finding, JsonObject, Row, Scalar

OUTSIDE = "what makes its values (projections, convolutions, gates) and what follows its outputs (norms, gates, projections)"
"""What a map of a linear layer does not include; all other inputs of its function are included."""


def warn_about_sampled_channels(chosen: LinearAttentionHeads) -> Iterator[str]:
    """Warn where only some channels represent a layer."""
    few = [layer for layer in chosen.layers if len(chosen.heads[layer.site]) < layer.heads]
    sampled = [layer for layer in few if layer.has_single_channel_heads]
    if sampled:
        most = max(layer.heads for layer in sampled)
        kinds = ", ".join(dict.fromkeys(pluralise_mixer_kind(layer.site.kind) for layer in sampled))
        yield (
            f"every channel of {kinds} has a map of its own: {len(chosen.heads[sampled[0].site])} of {most} are looked "
            "at, evenly spaced; choose others with `heads`."
        )


class LinearAttentionReport(NamedTuple):
    """What a report says of a model's linear layers; nothing, where it has none."""

    kinds: frozenset[str] = frozenset()
    """Kinds of mixers that have maps."""
    rows: Sequence[Row] = ()
    metrics: Mapping[str, Definition] = MappingProxyType({})
    """Definitions of the metrics that only linear layers have."""
    source: Mapping[str, Any] = MappingProxyType({})
    findings: Sequence[Finding] = ()
    headline: str = ""
    warnings: Sequence[str] = ()


def report_linear_attention(
    layers: LinearAttentionLayers,
    chosen: LinearAttentionHeads,
    observed: HeadObservations,
    heads: Sequence[ClassifiedHead],
    keys: Mapping[AttentionSite, dict[str, Scalar]],
) -> LinearAttentionReport:
    """Report the linear layers; `heads`: all heads, where roles are classified."""
    rows = list(build_completeness_error_rows(observed, keys))
    refused = [
        Finding("not looked at", f"{pluralise_mixer_kind(kind)}: {why}")
        for kind, why in layers.refusals.items()
    ]
    own = [head for head in heads if is_linear_attention_head(head)]
    return LinearAttentionReport(
        layers.kinds,
        rows,
        {COMPLETENESS: DEFINITIONS[COMPLETENESS]} if rows else {},
        describe_linear_layers(layers),
        [*build_linear_findings(heads, layers), *refused],
        format_head_roles(own, "linear head")
        if own
        else "",  # `24 linear heads: 20 local, 4 mixed`
        list(warn_about_sampled_channels(chosen)),
    )


def build_completeness_error_rows(
    observed: HeadObservations, keys: Mapping[AttentionSite, dict[str, Scalar]]
) -> Iterator[Row]:
    """One row for each linear layer."""
    for site in observed.attention_sites:
        missed = [
            seen.reconstruction_errors[site]
            for seen in observed.texts
            if site in seen.reconstruction_errors
        ]
        if missed:
            yield summarize_values(COMPLETENESS, "1", missed, "", keys=keys[site], layer=site.layer)


def describe_linear_layers(layers: LinearAttentionLayers) -> JsonObject:
    """JSON description of the linear layers: their kinds, and what their maps exclude; empty where
    there are none."""
    kinds: dict[tuple[str, str], dict[str, Any]] = {}
    for layer in layers.layers:
        sentence: JsonObject = {
            "kind": layer.site.kind,
            "function": layer.mixer_function_name,
            "argument": layer.values.key,
            "heads": layer.heads,
            "heads_are_channels": layer.has_single_channel_heads,
            "outside": OUTSIDE,
            "layers": [],
        }
        kinds.setdefault((layer.site.kind, layer.mixer_function_name), sentence)["layers"].append(
            layer.site.layer
        )
    found = {"linear": list(kinds.values())} if kinds else {}
    return found | ({"not_linear": dict(layers.refusals)} if layers.refusals else {})


def is_linear_attention_head(head: ClassifiedHead) -> bool:
    return head.keys.get("span") == "linear"


def build_linear_findings(
    heads: Sequence[ClassifiedHead], layers: LinearAttentionLayers
) -> Iterator[Finding]:
    """Describe the linear heads of each kind, compared with softmax heads."""
    alone = layers.layers[0].site.kind if layers.layers else ""
    softmax = [head for head in heads if not is_linear_attention_head(head)]
    kinds: dict[str, list[ClassifiedHead]] = {}
    for head in heads:
        if is_linear_attention_head(head):
            kinds.setdefault(str(head.keys.get("kind", alone)), []).append(head)
    for kind, own in kinds.items():
        where = format_layer_numbers([head.layer for head in own])
        sentence = f"{format_head_roles(own, 'head', f' in {where}')}{describe_attention_distances(own, softmax)}; {describe_weight_normalization(own)}"
        yield Finding(pluralise_mixer_kind(kind), sentence)
    if kinds and softmax:
        yield Finding("softmax heads", format_head_roles(softmax))


def format_head_roles(heads: Sequence[ClassifiedHead], what: str = "head", where: str = "") -> str:
    return f"{format_count(len(heads), what)}{where}{describe_roles(heads, len(heads))}"


def describe_weight_normalization(heads: Sequence[ClassifiedHead]) -> str:
    """Describe roles and distances; signs only where they were measured."""
    shares = [head.numbers["negative_share"] for head in heads if "negative_share" in head.numbers]
    if len(shares) == len(heads) and not any(shares):
        return "of A / ΣA, as A has no negative weight"
    return "of |A| / Σ|A|" + (", as A has both signs" if any(shares) else "")


def describe_attention_distances(
    own: Sequence[ClassifiedHead], softmax: Sequence[ClassifiedHead]
) -> str:
    """Describe how far back they look, compared with softmax heads and uniform attention."""
    metric = "memory_length" if any("memory_length" in head.numbers for head in own) else "distance"
    values = [head.numbers[metric] for head in own if metric in head.numbers]
    if not values:
        return ""
    others = [head.numbers[metric] for head in softmax if metric in head.numbers]
    even = [
        head.uniform_attention_values[metric]
        for head in own
        if metric in head.uniform_attention_values
    ]
    comparison = f"softmax heads: {format_number(median(others))}; " if others else ""
    comparison += f"uniform attention: {format_number(median(even))}" if even else ""
    what = metric.replace("_", " ")
    return f"; median {what} {format_number(median(values))} tokens ({comparison})"
