"""`attn rank-collapse MODEL`: the published figure for any transformers model, its parts switched off exactly."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from attncli.checkpoints.inputs.texts import ModelInput
from attncli.checkpoints.loading.load import Checkpoint
from attncli.checkpoints.structure.traits import Traits
from attncli.maths.decays import FEWEST_POINTS
from attncli.maths.regime import regime
from attncli.metrics import definition
from attncli.networks.variants import Switches
from attncli.ranks.sharing import own_share
from attncli.records import Finding, Report, Row, Scalar, View
from attncli.studies import Progress, no_progress
from attncli.studies.model_runs import Curves, Place, Subject, run_text
from attncli.studies.over_texts import over_texts
from attncli.studies.rank_collapse import BEYOND, OWN_METRICS, REGIMES, measured_rows, order_rows
from attncli.studies.regimes import at_the_end, last_known, mean_curves, support, with_order
from attncli.studies.trajectories import RESIDUAL, Ensemble, Trajectory

RANDOM_SUFFIX = "@random"
"""`SAN@random`: the same variant of the same architecture with random weights."""

FLOOR = 4.0
"""In units of the dtype's ε: a residual below this that was found by subtraction is mostly rounding."""

SUBTRACTED = {"log10_residual", "log10_residual_frobenius", "log10_residual_spectral"}
"""Metrics that are a residual relative to the state, so that the floor is where their digits end."""


@dataclass(frozen=True)
class Precision:
    """How residuals were found."""

    dtype: str
    log10_floor: float
    """Where subtraction stops; -inf where common row and residual were carried apart."""

    @classmethod
    def of(cls, dtype: torch.dtype, exact: bool) -> "Precision":
        floor = -math.inf if exact else math.log10(FLOOR * torch.finfo(dtype).eps)
        return cls(str(dtype).removeprefix("torch."), floor)


def model_collapse(
    checkpoint: Checkpoint,
    subjects: Mapping[str, Subject],
    traits: Mapping[str, Traits],
    texts: Sequence[ModelInput],
    variants: Mapping[str, Switches],
    metrics: Sequence[str],
    precision: Precision,
    sub_blocks: bool = False,
    progress: Progress = no_progress,
) -> Report:
    """`subjects`: the model itself under "", its random twin under the suffix of that one's variants."""
    wanted = list(dict.fromkeys([RESIDUAL, *metrics]))
    identity = checkpoint.identity
    everywhere = measure(subjects, identity, texts, variants, wanted, sub_blocks, progress)
    ensembles = {place.stack: found for place, found in everywhere.items() if not place.after}
    both = {name + suffix: variants[name] for suffix in subjects for name in variants}
    findings = tuple(describe(ensembles, both, traits, precision))
    return Report(
        study="rank-collapse",
        headline=headline(ensembles, findings, precision),
        rows=tuple(all_rows(everywhere, len(ensembles) > 1, precision)),
        metrics={name: definition(name) for name in wanted} | {"order": OWN_METRICS["order"]},
        source=describe_source(checkpoint, subjects, variants, precision),
        input={"texts": [{"name": text.name, "tokens": text.tokens} for text in texts]},
        views=tuple(views(everywhere, metrics, len(texts))),
        findings=findings,
        warnings=(*checkpoint.warnings, *subjects[""].anatomy.notes),
    )


def measure(
    subjects: Mapping[str, Subject],
    identity: Mapping[str, Any],
    texts: Sequence[ModelInput],
    variants: Mapping[str, Switches],
    metrics: Sequence[str],
    sub_blocks: bool,
    progress: Progress,
) -> dict[Place, Ensemble]:
    """Per place and variant, one trajectory for each text."""
    total, done = len(subjects) * len(own_share(texts)) * len(variants), 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, total, "forward passes")

    found: dict[Place, dict[str, list[Trajectory]]] = {}
    for suffix, subject in subjects.items():

        def work(place: int, text: ModelInput, subject: Subject = subject) -> dict[str, Curves]:
            return run_text(subject, text, variants, metrics, tick, sub_blocks)

        made_of = (Place, Trajectory)
        for ran in over_texts(texts, work, identity, f"collapse {suffix}", made_of):
            for variant, curves in ran.items():
                for place, trajectory in curves.items():
                    per_variant = found.setdefault(place, {})
                    per_variant.setdefault(variant + suffix, []).append(trajectory)
    return dict(found)


def describe(
    ensembles: Mapping[str, Ensemble],
    variants: Mapping[str, Switches],
    traits: Mapping[str, Traits],
    precision: Precision,
) -> Iterator[Finding]:
    """The regime of every variant in every stack."""
    for stack, ensemble in ensembles.items():
        for name, curve in mean_curves(ensemble).items():
            switches = variants[name]
            drag = ", ".join(
                filter(None, ["the skip" if switches.skip else "", traits[stack].drag])
            )
            text = in_words(curve, support(switches), drag, precision)
            yield Finding(about(stack, name, ensembles), text)


def about(stack: str, variant: str, ensembles: Mapping[str, Ensemble]) -> str:
    """The variant, and the stack where there are several."""
    return variant if len(ensembles) == 1 else f"{stack} {variant}"


def in_words(curve: Sequence[float], support: str, drag: str, precision: Precision) -> str:
    """The regime, told from the layers above the floor."""
    layer = floor_layer(curve, precision)
    if layer is None:
        return regime(curve, support, drag)
    floor = f"at the {precision.dtype} floor from layer {layer} on"
    if layer < FEWEST_POINTS:
        return floor
    return f"{regime(curve[:layer], support, drag)}; {floor}"


def floor_layer(curve: Sequence[float], precision: Precision) -> int | None:
    """The first layer whose residual is rounding."""
    return next((i for i, value in enumerate(curve) if value < precision.log10_floor), None)


def headline(
    ensembles: Mapping[str, Ensemble], findings: Sequence[Finding], precision: Precision
) -> str:
    """Of every stack, the variant that collapses most and the one that holds best."""
    regimes = {finding.about: finding.text.partition(";")[0] for finding in findings}
    parts = []
    for stack, ensemble in ensembles.items():
        means = mean_curves(ensemble)
        ends = sorted(means, key=lambda name: last_known(means[name])[1])
        for name in dict.fromkeys((ends[0], ends[-1])):
            title, layer = about(stack, name, ensembles), floor_layer(means[name], precision)
            told = f", {with_order(regimes[title], means[name][:layer])}"
            nothing = layer is not None and layer < FEWEST_POINTS
            parts.append(
                f"{title}: {end_in_words(means[name], precision)}{'' if nothing else told}"
            )
    return "; ".join(parts) + "."


def end_in_words(curve: Sequence[float], precision: Precision) -> str:
    """Where the curve ends, or where it meets the floor."""
    layer = floor_layer(curve, precision)
    if layer is None:
        return at_the_end(curve)
    return f"r < {10**precision.log10_floor:.0e} from layer {layer} on"


def all_rows(
    everywhere: Mapping[Place, Ensemble], several_stacks: bool, precision: Precision
) -> Iterator[Row]:
    for place, ensemble in everywhere.items():
        keys = keys_of(place, several_stacks)
        for variant, trajectories in ensemble.items():
            for row in measured_rows(variant, trajectories, keys):
                if not (place.after and row.layer == 0):  # there is no block before state 0
                    yield marked(row, precision)
            if not place.after:
                above = [above_floor(trajectory, precision) for trajectory in trajectories]
                yield from order_rows(variant, above, keys)


def keys_of(place: Place, several_stacks: bool) -> dict[str, Scalar]:
    """What tells a place's rows from others': nothing, where there is only one."""
    stack: dict[str, Scalar] = {"stack": place.stack} if several_stacks else {}
    return stack | ({"after": place.after} if place.after else {})


def marked(row: Row, precision: Precision) -> Row:
    """A residual at the floor says so."""
    if row.metric not in SUBTRACTED or precision.log10_floor == -math.inf:
        return row
    if row.value is None and row.note == BEYOND:
        return replace(row, note=f"0 in {precision.dtype}: all tokens round to one vector")
    if row.value is not None and row.value < precision.log10_floor:
        return replace(row, note=f"at the {precision.dtype} floor: rounding, not a residual")
    return row


def above_floor(trajectory: Trajectory, precision: Precision) -> Trajectory:
    """The residuals with rounding left out, so that no order is told from it."""
    curve = trajectory.measured[RESIDUAL]
    layer = floor_layer(curve, precision)
    kept = curve if layer is None else [*curve[:layer], *(math.nan for _ in curve[layer:])]
    return Trajectory({RESIDUAL: kept}, [])


def describe_source(
    checkpoint: Checkpoint,
    subjects: Mapping[str, Subject],
    variants: Mapping[str, Switches],
    precision: Precision,
) -> dict[str, Any]:
    """The model's identity, what each variant switches on, and how residuals were found."""
    return {
        **checkpoint.identity,
        "variants": {name: asdict(switches) for name, switches in variants.items()},
        "random_twin": RANDOM_SUFFIX in subjects,
        "residual": "common row and residual carried apart"
        if precision.log10_floor == -math.inf
        else f"by subtraction in {precision.dtype}: floor at log10 r = {precision.log10_floor:.1f}",
    }


def views(
    everywhere: Mapping[Place, Ensemble], metrics: Sequence[str], texts: int
) -> Iterator[View]:
    over = f", mean ± standard deviation over {texts} texts" if texts > 1 else ""
    several = len({place.stack for place in everywhere}) > 1
    whole: dict[str, Scalar] = {"after": ""} if any(place.after for place in everywhere) else {}
    for place in everywhere:
        of = f" of {place.stack}" if several else ""
        after = f"the {place.after} of each layer" if place.after else "each layer"
        for metric in metrics:
            yield View(
                title=f"{metric} after {after}{of}{over}",
                down="layer",
                across="variant",
                metrics=(metric,),
                where=whole | keys_of(place, several),
            )
    yield REGIMES
