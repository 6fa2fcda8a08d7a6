"""How much of the output passes through each head, and through each layer's skip."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from attncli.analysis import Progress, no_progress
from attncli.analysis.paths.path_metrics import percent
from attncli.analysis.statistics import averaged, near_largest, summary_row
from attncli.commands.paths.synthetic.network_paths import TOLERANCE
from attncli.commands.paths.synthetic.path_measures import norm_shares, ratio
from attncli.commands.paths.synthetic.path_samples import about
from attncli.commands.paths.synthetic.path_terms import (
    difference,
    frozen_layers,
    inner_share,
    require_room,
    total,
)
from attncli.errors import InputError, counted
from attncli.maths.digits import with_spread
from attncli.maths.residuals.split import Split
from attncli.networks.frozen import FrozenLayer, sum_of
from attncli.networks.variants import VARIANTS
from attncli.networks.weights import Network
from attncli.records import Definition, Finding, Report, Row, View

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


class Door(NamedTuple):
    """Where paths pass a layer: one of its heads, its skip; or they begin after it, at a bias."""

    layer: int
    through: str
    head: int | None = None


BIASES = "biases"
BEYOND = "beyond float range"

WHERE = {"skip": "each layer's skip carries", "past": "past each layer's attention go"}
"""Where the rest of the output passes, in words."""


def through_heads(
    networks: Sequence[Network],
    skip: bool,
    source: Mapping[str, Any],
    progress: Progress = no_progress,
) -> Report:
    """The share of every head of every layer, for networks that differ in their seed."""
    variant = "SAN+skip" if skip else "SAN"
    done, steps = 0, len(networks) * networks[0].spec.layers

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, steps, "layers")

    found = [shares_of(network, variant, tick) for network in networks]
    rows = tuple(all_rows(found, variant))
    over = averaged(len(networks), "seeds")
    titles = {name: f"{variant}: {name}{over}" for name in (OUTPUT, NORM)}
    views = door_views(titles, "Do the doors of a layer add up to the output?")
    finding = Finding(variant, largest(rows))
    return doors_report(rows, OWN_METRICS, views, finding, about(networks, variant, source))


def door_views(titles: Mapping[str, str], completeness: str) -> tuple[View, ...]:
    """Shares by layer and door, under the title of each; `completeness`: what the last view answers."""
    shares = (View(title, "layer", (name,), across="through") for name, title in titles.items())
    return (*shares, View(completeness, "variant", ("completeness_error",)))


def doors_report(
    rows: tuple[Row, ...],
    metrics: Mapping[str, Definition],
    views: tuple[View, ...],
    finding: Finding,
    about: Mapping[str, Any],
) -> Report:
    """Of networks or of a model, which `about` describes."""
    return Report(
        study="paths",
        headline=finding.text,
        rows=rows,
        metrics=metrics,
        views=views,
        findings=(finding,),
        **about,
    )


class DoorShares(NamedTuple):
    output: dict[Door, float]
    norm: dict[Door, float]
    completeness: float


def shares_of(network: Network, variant: str, tick: Callable[[], None]) -> DoorShares:
    """Every door's part of the output, all carried to the end together."""
    spec = network.spec
    require_room(spec, streams=spec.layers * (spec.heads + 2))
    state = Split.of(network.embeddings())
    parts: dict[Door, Split] = {}
    where = f"{variant}, seed {network.seed}"
    for layer, (following, frozen) in enumerate(frozen_layers(network, VARIANTS[variant], where)):
        parts = onwards(parts, frozen)
        parts.update(doors(state, frozen, layer))
        state = following
        tick()
    by_layer = [
        {door: part for door, part in parts.items() if door.layer == layer}
        for layer in range(spec.layers)
    ]
    error = max(ratio(difference(state, whole(own)), state) for own in by_layer)
    if not error <= TOLERANCE:
        raise InputError(
            f"{where}: the heads of a layer add up to the output within {error:.1g} only."
        )
    output = {door: inner_share(part, state) for door, part in parts.items()}
    return DoorShares(
        output, {door: share for own in by_layer for door, share in sizes(own).items()}, error
    )


def whole(parts: Mapping[Door, Split]) -> Split:
    return total(dict(enumerate(parts.values())))


def sizes(parts: Mapping[Door, Split]) -> dict[Door, float]:
    """Each door's part of the summed norms."""
    return dict(zip(parts, norm_shares(dict(enumerate(parts.values()))).values(), strict=True))


def doors(state: Split, frozen: FrozenLayer, layer: int) -> Iterator[tuple[Door, Split]]:
    """What passes a layer, apart by door; the values' biases go through their heads."""
    for head in range(len(frozen.one_head)):
        through = frozen.through_attention(state.split(), head)
        bias = frozen.value_bias(head)
        yield Door(layer, f"head {head}", head), through if bias is None else sum_of(through, bias)
    if frozen.skip:
        yield Door(layer, "skip"), frozen.past_attention(state)
    bias = frozen.output_bias()
    if bias is not None:
        yield Door(layer, BIASES), bias


def onwards(parts: Mapping[Door, Split], frozen: FrozenLayer) -> dict[Door, Split]:
    """Everything that passed an earlier layer goes through this one; its biases join theirs."""
    moved = {door: frozen.whole(part) for door, part in parts.items()}
    bias = frozen.biases()
    if bias is not None:
        for door in moved:
            if door.through == BIASES:
                moved[door] = sum_of(moved[door], bias)
    return moved


def all_rows(found: Sequence[DoorShares], variant: str) -> Iterator[Row]:
    for metric, shares in (
        (OUTPUT, [one.output for one in found]),
        (NORM, [one.norm for one in found]),
    ):
        yield from door_rows(metric, shares, variant, BEYOND)
    errors = [one.completeness for one in found]
    yield summary_row("completeness_error", "1", errors, BEYOND, variant=variant)


def door_rows(
    metric: str, shares: Sequence[Mapping[Door, float]], variant: str, why_null: str
) -> Iterator[Row]:
    """Every door's share, over seeds or texts."""
    for door in shares[0]:
        values = [one[door] for one in shares]
        at: dict[str, Any] = {"layer": door.layer, "head": door.head, "variant": variant}
        yield summary_row(metric, "1", values, why_null, {"through": door.through}, **at)


def largest(rows: Sequence[Row], beside: str = "skip") -> str:
    """The head with the largest share of the output, if the errors tell which, and what the skips carry, in words."""
    shares = [row for row in rows if row.metric == OUTPUT and row.value is not None]
    heads = sorted((row for row in shares if row.head is not None), key=lambda row: -(row.value or 0.0))  # fmt: skip
    text = first_head(heads)
    skips = [row.value or 0.0 for row in shares if row.keys["through"] == beside]
    if not skips:
        return text + "."
    return f"{text}; {WHERE[beside]} {percent(min(skips))} to {percent(max(skips))}."


def first_head(order: Sequence[Row]) -> str:
    """By the intervals over seeds or texts; of a single one the number itself."""
    top = order[0]
    name = f"head {top.head} of layer {top.layer}"
    if top.spread is None:
        return (
            f"The head with the largest share of the output is {name}: {percent(top.value or 0.0)}"
        )
    share = f"{with_spread(100.0 * (top.value or 0.0), 100.0 * top.spread / math.sqrt(top.n))} %"
    near = len(near_largest(order))
    if near == 1:
        return f"The head with the largest share of the output is {name}: {share}"
    others = counted(near - 1, "other")
    return f"No head stands out: the largest share of the output is {share}, {name}, and the errors do not tell it from {others}"
