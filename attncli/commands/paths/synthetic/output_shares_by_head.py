"""How much of the output passes through each head, and through each layer's skip."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from attncli.analysis.means_and_confidence_intervals import (
    describe_averaging,
    select_rows_indistinguishable_from_first,
    summarize_values,
)
from attncli.analysis.paths.path_metrics import format_percent
from attncli.commands.paths.synthetic.metrics_by_path_length import (
    frobenius_norm_ratio,
    frobenius_norm_shares_by_path_length,
)
from attncli.commands.paths.synthetic.output_by_path_length import (
    iterate_layers_with_fixed_maps,
    output_share_by_inner_product,
    require_memory_for_residual_streams,
    subtract_common_and_residual_parts,
    sum_path_length_terms,
)
from attncli.commands.paths.synthetic.single_paths import describe_networks_and_variant
from attncli.errors import InputError, format_count
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.number_format import format_with_standard_deviation
from attncli.networks.ablation_variants import VARIANTS
from attncli.networks.frozen_attention_layers import LayerWithFrozenMaps, add_split_states
from attncli.networks.network_weights import Network
from attncli.progress import Progress, ignore_progress, make_progress_counter
from attncli.records import Definition, Facts, Finding, JsonObject, Report, Row, View
from attncli.tolerances import COMPLETENESS

OUTPUT, NORM = "head_output_share", "head_norm_share"

OWN_METRICS: Mapping[str, Definition] = {
    OUTPUT: Definition(
        "1",
        "⟨C, Y⟩ / ‖Y‖_F², C the sum of all paths through this head (or the skip) of this layer: adds up to 1 in a layer.",
    ),
    NORM: Definition("1", "‖C‖_F / Σ ‖C‖_F over the heads, the skip and the biases of a layer."),
    "completeness_error": Definition(
        "1",
        "‖Y - Σ C‖_F / ‖Y‖_F over the heads, the skip and the biases of a layer; the largest of all layers.",
    ),
}


class HeadOrSkip(NamedTuple):
    """Where paths pass a layer: at one of its heads or its skip; or they start after it, at a bias."""

    layer: int
    through: str
    head: int | None = None


BIASES = "biases"
BEYOND = "beyond float range"

WHERE = {"skip": "each layer's skip carries", "past": "past each layer's attention go"}
"""How sentences name the rest of the output."""


def measure_network_output_shares_by_head(
    networks: Sequence[Network], skip: bool, source: Facts, progress: Progress = ignore_progress
) -> Report:
    """The share of every head of every layer, for networks that differ in their seed."""
    variant = "SAN+skip" if skip else "SAN"
    layers = len(networks) * networks[0].spec.layers
    count_layer = make_progress_counter(progress, layers, "layers")
    found = [
        compute_network_output_shares_by_head(network, variant, count_layer) for network in networks
    ]
    rows = tuple(build_output_share_rows(found, variant))
    over = describe_averaging(len(networks), "seeds")
    titles = {name: f"{variant}: {name}{over}" for name in (OUTPUT, NORM)}
    views = build_output_share_tables(titles, "Do the doors of a layer add up to the output?")
    finding = Finding(variant, describe_head_with_largest_share(rows))
    return build_output_shares_report(
        rows, OWN_METRICS, views, finding, describe_networks_and_variant(networks, variant, source)
    )


def build_output_share_tables(titles: Mapping[str, str], completeness: str) -> tuple[View, ...]:
    """Views of shares by layer and passage point; `completeness`: the question of the last view."""
    shares = (View(title, "layer", (name,), across="through") for name, title in titles.items())
    return (*shares, View(completeness, "variant", ("completeness_error",)))


def build_output_shares_report(
    rows: tuple[Row, ...],
    metrics: Mapping[str, Definition],
    views: tuple[View, ...],
    finding: Finding,
    about: Facts,
) -> Report:
    """Build the report on networks or on a model, which `about` describes."""
    return Report(
        study="paths",
        headline=finding.text,
        rows=rows,
        metrics=metrics,
        views=views,
        findings=(finding,),
        **about,
    )


class HeadShares(NamedTuple):
    output: dict[HeadOrSkip, float]
    norm: dict[HeadOrSkip, float]
    completeness: float


def compute_network_output_shares_by_head(
    network: Network, variant: str, advance: Callable[[], None]
) -> HeadShares:
    """The part of the output through each passage point; all parts are propagated together."""
    spec = network.spec
    require_memory_for_residual_streams(spec, streams=spec.layers * (spec.heads + 2))
    state = SplitState.from_states(network.embeddings())
    parts: dict[HeadOrSkip, SplitState] = {}
    where = f"{variant}, seed {network.seed}"
    for layer, (following, frozen) in enumerate(
        iterate_layers_with_fixed_maps(network, VARIANTS[variant], where)
    ):
        parts = propagate_head_parts_through_layer(parts, frozen)
        parts.update(split_layer_output_by_head(state, frozen, layer))
        state = following
        advance()
    by_layer = [
        {door: part for door, part in parts.items() if door.layer == layer}
        for layer in range(spec.layers)
    ]
    error = max(
        frobenius_norm_ratio(
            subtract_common_and_residual_parts(state, sum_parts_of_heads_and_skips(own)), state
        )
        for own in by_layer
    )
    if not error <= COMPLETENESS.tolerance_for_dtype("float64"):
        raise InputError(
            f"{where}: the heads of a layer add up to the output within {error:.1g} only."
        )
    output = {door: output_share_by_inner_product(part, state) for door, part in parts.items()}
    return HeadShares(
        output,
        {
            door: share
            for own in by_layer
            for door, share in shares_of_summed_vector_norms(own).items()
        },
        error,
    )


def sum_parts_of_heads_and_skips(parts: Mapping[HeadOrSkip, SplitState]) -> SplitState:
    return sum_path_length_terms(dict(enumerate(parts.values())))


def shares_of_summed_vector_norms(
    parts: Mapping[HeadOrSkip, SplitState],
) -> dict[HeadOrSkip, float]:
    """Each door's part of the summed norms."""
    return dict(
        zip(
            parts,
            frobenius_norm_shares_by_path_length(dict(enumerate(parts.values()))).values(),
            strict=True,
        )
    )


def split_layer_output_by_head(
    state: SplitState, frozen: LayerWithFrozenMaps, layer: int
) -> Iterator[tuple[HeadOrSkip, SplitState]]:
    """Split the output of a layer by passage point; the values' biases go through their heads."""
    for head in range(len(frozen.attention_branch_per_head)):
        through = frozen.apply_attention_branch(state.to_split_form(), head)
        bias = frozen.compute_value_bias_contribution(head)
        yield (
            HeadOrSkip(layer, f"head {head}", head),
            through if bias is None else add_split_states(through, bias),
        )
    if frozen.skip:
        yield HeadOrSkip(layer, "skip"), frozen.apply_skip_connection(state)
    bias = frozen.compute_output_bias_contribution()
    if bias is not None:
        yield HeadOrSkip(layer, BIASES), bias


def propagate_head_parts_through_layer(
    parts: Mapping[HeadOrSkip, SplitState], frozen: LayerWithFrozenMaps
) -> dict[HeadOrSkip, SplitState]:
    """Propagate the parts of earlier layers through this one; its biases join theirs."""
    moved = {door: frozen.apply_layer_with_fixed_maps(part) for door, part in parts.items()}
    bias = frozen.compute_bias_contribution()
    if bias is not None:
        for door in moved:
            if door.through == BIASES:
                moved[door] = add_split_states(moved[door], bias)
    return moved


def build_output_share_rows(found: Sequence[HeadShares], variant: str) -> Iterator[Row]:
    for metric, shares in (
        (OUTPUT, [one.output for one in found]),
        (NORM, [one.norm for one in found]),
    ):
        yield from build_output_share_metric_rows(metric, shares, variant, BEYOND)
    errors = [one.completeness for one in found]
    yield summarize_values("completeness_error", "1", errors, BEYOND, variant=variant)


def build_output_share_metric_rows(
    metric: str, shares: Sequence[Mapping[HeadOrSkip, float]], variant: str, why_null: str
) -> Iterator[Row]:
    """Rows of the share of every passage point, over seeds or texts."""
    for door in shares[0]:
        values = [one[door] for one in shares]
        at: JsonObject = {"layer": door.layer, "head": door.head, "variant": variant}
        yield summarize_values(metric, "1", values, why_null, {"through": door.through}, **at)


def describe_head_with_largest_share(rows: Sequence[Row], comparison: str = "skip") -> str:
    """Describe the head with the largest share if the errors separate it, and the share of the
    skips."""
    shares = [row for row in rows if row.metric == OUTPUT and row.value is not None]
    heads = sorted(
        (row for row in shares if row.head is not None), key=lambda row: -(row.value or 0.0)
    )
    text = format_head_with_largest_share(heads)
    skips = [row.value or 0.0 for row in shares if row.keys["through"] == comparison]
    if not skips:
        return text + "."
    return (
        f"{text}; {WHERE[comparison]} {format_percent(min(skips))} to {format_percent(max(skips))}."
    )


def format_head_with_largest_share(order: Sequence[Row]) -> str:
    """By the intervals over seeds or texts; of a single one the number itself."""
    top = order[0]
    name = f"head {top.head} of layer {top.layer}"
    if top.spread is None:
        return f"The head with the largest share of the output is {name}: {format_percent(top.value or 0.0)}"
    share = f"{format_with_standard_deviation(100.0 * (top.value or 0.0), 100.0 * top.spread / math.sqrt(top.n))} %"
    near = len(select_rows_indistinguishable_from_first(order))
    if near == 1:
        return f"The head with the largest share of the output is {name}: {share}"
    others = format_count(near - 1, "other")
    return f"No head stands out: the largest share of the output is {share}, {name}, and the errors do not tell it from {others}"
