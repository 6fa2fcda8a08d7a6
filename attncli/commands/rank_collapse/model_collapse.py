"""`attn rank-collapse MODEL`: the published figure for any transformers model, its parts switched off exactly."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from attncli.ablation.published import activation_notes
from attncli.analysis import Progress, no_progress
from attncli.analysis.states.depth_descriptions import depth_findings
from attncli.analysis.states.model_runs import CollapseSubject, Curves, StatePlace, run_text
from attncli.analysis.states.network_collapse import OWN_METRICS, REGIMES, measured_rows, order_rows
from attncli.analysis.states.regimes import at_the_end, mean_curves, support, with_order
from attncli.analysis.states.state_metrics import definition_of
from attncli.analysis.states.trajectories import EXACT, RESIDUAL, Ensemble, Trajectory
from attncli.analysis.statistics import averaged
from attncli.analysis.texts import over_texts
from attncli.capture.attention_properties import Traits
from attncli.maths.curves.decay_laws import FEWEST_POINTS
from attncli.maths.curves.regime import regime
from attncli.models.inputs.texts import ModelInput, said_of_company
from attncli.models.loading.load import Checkpoint
from attncli.networks.variants import Switches
from attncli.processes.work_sharing import own_share
from attncli.records import ARITHMETIC, UNCERTAINTY, Finding, Report, Row, Scalar, View

RANDOM_SUFFIX = "@random"
"""`SAN@random`: the same variant of the same architecture with random weights."""


def model_collapse(
    checkpoint: Checkpoint,
    subjects: Mapping[str, CollapseSubject],
    traits: Mapping[str, Traits],
    texts: Sequence[ModelInput],
    variants: Mapping[str, Switches],
    metrics: Sequence[str],
    sub_blocks: bool = False,
    progress: Progress = no_progress,
    over: int = 1,
) -> Report:
    """`subjects`: the model itself under "", its random twin under the suffix of that one's variants."""
    wanted = list(dict.fromkeys([RESIDUAL, *metrics]))
    identity = checkpoint.identity
    everywhere = measure(subjects, identity, texts, variants, wanted, sub_blocks, over, progress)
    ensembles = {place.stack: found for place, found in everywhere.items() if not place.after}
    arithmetics = arithmetics_of(ensembles)
    both = {name + suffix: variants[name] for suffix in subjects for name in variants}
    findings = tuple(describe(ensembles, both, traits))
    return Report(
        study="rank-collapse",
        headline=headline(ensembles, findings),
        rows=tuple(all_rows(everywhere, len(ensembles) > 1, over)),
        metrics={name: definition_of(name) for name in wanted} | {"order": OWN_METRICS["order"]},
        source=describe_source(checkpoint, subjects, variants, arithmetics),
        input={"texts": [text.described() for text in texts]},
        views=tuple(views(everywhere, metrics, len(texts), arithmetics)),
        findings=(*findings, *in_depth(ensembles)),
        warnings=(
            *checkpoint.warnings,
            *said_of_company(texts),
            *subjects[""].anatomy.notes,
            *activation_notes(subjects[""].anatomy, variants),
            *whys_of(ensembles),
        ),
    )


def measure(
    subjects: Mapping[str, CollapseSubject],
    identity: Mapping[str, Any],
    texts: Sequence[ModelInput],
    variants: Mapping[str, Switches],
    metrics: Sequence[str],
    sub_blocks: bool,
    over: int,
    progress: Progress,
) -> dict[StatePlace, Ensemble]:
    """Per place and variant, one trajectory for each text."""
    total, done = len(subjects) * len(own_share(texts)) * len(variants), 0

    def tick() -> None:
        nonlocal done
        done += 1
        progress(done, total, "forward passes")

    found: dict[StatePlace, dict[str, list[Trajectory]]] = {}
    for suffix, subject in subjects.items():

        def work(
            place: int, text: ModelInput, subject: CollapseSubject = subject
        ) -> dict[str, Curves]:
            return run_text(subject, text, variants, metrics, tick, sub_blocks, over)

        made_of = (StatePlace, Trajectory)
        for ran in over_texts(subject.body, texts, work, identity, f"collapse {suffix}", made_of):
            for variant, curves in ran.items():
                for place, trajectory in curves.items():
                    per_variant = found.setdefault(place, {})
                    per_variant.setdefault(variant + suffix, []).append(trajectory)
    return dict(found)


def describe(
    ensembles: Mapping[str, Ensemble],
    variants: Mapping[str, Switches],
    traits: Mapping[str, Traits],
) -> Iterator[Finding]:
    """The regime of every variant in every stack."""
    for stack, ensemble in ensembles.items():
        for name, curve in mean_curves(ensemble).items():
            switches = variants[name]
            drag = ", ".join(
                filter(None, ["the skip" if switches.skip else "", traits[stack].drag])
            )
            held = support(replace(switches, mlp=switches.mlp and traits[stack].mlps))
            text = in_words(curve, held, drag, ensemble[name])
            yield Finding(about(stack, name, ensembles), text)


def in_depth(ensembles: Mapping[str, Ensemble]) -> Iterator[Finding]:
    for stack, ensemble in ensembles.items():
        yield from depth_findings(ensemble, f"{stack} " if len(ensembles) > 1 else "")


def about(stack: str, variant: str, ensembles: Mapping[str, Ensemble]) -> str:
    """The variant, and the stack where there are several."""
    return variant if len(ensembles) == 1 else f"{stack} {variant}"


def in_words(
    curve: Sequence[float], support: str, drag: str, trajectories: Sequence[Trajectory]
) -> str:
    """The regime, told from the layers that are known."""
    layer = first_unknown(curve)
    if layer is None:
        return regime(curve, support, drag)
    unknown = unknown_in_words(layer, trajectories)
    if layer < FEWEST_POINTS:
        return unknown
    return f"{regime(curve[:layer], support, drag)}; {unknown}"


def unknown_in_words(layer: int, trajectories: Sequence[Trajectory]) -> str:
    arithmetic = arithmetic_of(trajectories)
    if arithmetic != EXACT:
        return f"not known in {arithmetic} from layer {layer} on"
    if any(one.unknown and one.unknown[RESIDUAL][layer] for one in trajectories):
        return f"not known from layer {layer} on: the last bits of the numbers decide it"
    return f"not resolved from layer {layer} on: tokens coincide to the last bit"


def first_unknown(curve: Sequence[float]) -> int | None:
    """The first layer whose residual rounding has swallowed."""
    return next((i for i, value in enumerate(curve) if math.isnan(value)), None)


def headline(ensembles: Mapping[str, Ensemble], findings: Sequence[Finding]) -> str:
    """Of every stack, the variant that collapses most and the one that holds best, as far as they are known.

    The user's own model first; of the same with random weights only where it ends.
    """
    regimes = {finding.about: finding.text.partition(";")[0] for finding in findings}
    parts, random = [], []
    for stack, ensemble in ensembles.items():
        means = mean_curves(ensemble)
        for name in most_and_least([name for name in means if not is_random(name)], means):
            title = about(stack, name, ensembles)
            end, known = end_in_words(means[name], ensemble[name]), known_part(means[name])
            told = f", {with_order(regimes[title], known)}" if known else ""
            parts.append(f"{title}: {end}{'' if end.endswith(regimes[title]) else told}")
        for name in most_and_least(list(filter(is_random, means)), means):
            title = about(stack, name.removesuffix(RANDOM_SUFFIX), ensembles)
            end = end_in_words(means[name], ensemble[name])
            random.append(f"{title} {end}")
    twin = [f"with random weights {', '.join(random)}"] if random else []
    return "; ".join([*parts, *twin]) + "."


def is_random(variant: str) -> bool:
    return variant.endswith(RANDOM_SUFFIX)


def known_part(curve: Sequence[float]) -> Sequence[float]:
    return curve[: first_unknown(curve)]


def most_and_least(names: Sequence[str], means: Mapping[str, Sequence[float]]) -> list[str]:
    """The variant that ends lowest and the one that ends highest; one name where they are the same."""
    ends = sorted(names, key=lambda name: (known_part(means[name]) or [0.0])[-1])
    return list(dict.fromkeys([*ends[:1], *ends[-1:]]))


def end_in_words(curve: Sequence[float], trajectories: Sequence[Trajectory]) -> str:
    """Where the curve ends, or where it is last known."""
    layer = first_unknown(curve)
    if layer is None:
        return at_the_end(curve)
    unknown = unknown_in_words(layer, trajectories)
    return f"{at_the_end(curve[:layer])} and {unknown}" if layer else unknown


def all_rows(
    everywhere: Mapping[StatePlace, Ensemble], several_stacks: bool, over: int
) -> Iterator[Row]:
    for place, ensemble in everywhere.items():
        for variant, trajectories in ensemble.items():
            keys = keys_of(place, several_stacks) | {ARITHMETIC: arithmetic_of(trajectories)}
            for row in measured_rows(variant, trajectories, keys, 1 if place.after else over):
                if not (place.after and row.layer == 0):  # there is no block before state 0
                    yield with_rounding(row, trajectories)
            if not place.after:
                yield from order_rows(variant, trajectories, keys)


def keys_of(place: StatePlace, several_stacks: bool) -> dict[str, Scalar]:
    """What tells a place's rows from others': nothing, where there is only one."""
    stack: dict[str, Scalar] = {"stack": place.stack} if several_stacks else {}
    return stack | ({"after": place.after} if place.after else {})


def with_rounding(row: Row, trajectories: Sequence[Trajectory]) -> Row:
    """A number with how far rounding may have moved it; a null with what rounding has made of it."""
    plain = [one for one in trajectories if one.uncertain]
    if not plain or row.layer is None:
        return row
    if row.value is None:
        whys = filter(None, (one.unknown[row.metric][row.layer] for one in plain))
        return replace(row, note=next(whys, row.note))
    by = math.fsum(one.uncertain[row.metric][row.layer] for one in plain) / len(trajectories)
    return replace(row, keys=row.keys | {UNCERTAINTY: by})  # type: ignore[operator]


def arithmetic_of(trajectories: Sequence[Trajectory]) -> str:
    """Exact, if it is so of every text."""
    return next((one.arithmetic for one in trajectories if one.arithmetic != EXACT), EXACT)


def arithmetics_of(ensembles: Mapping[str, Ensemble]) -> dict[str, str]:
    """Of every variant; its stacks are run alike."""
    return {
        name: arithmetic_of(trajectories)
        for ensemble in ensembles.values()
        for name, trajectories in ensemble.items()
    }


def whys_of(ensembles: Mapping[str, Ensemble]) -> Iterator[str]:
    """Why variants are not exact, each reason once."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for ensemble in ensembles.values():
        for name, trajectories in ensemble.items():
            for one in trajectories:
                if one.why_plain:
                    found.setdefault((one.arithmetic, one.why_plain), {})[name] = None
    for (arithmetic, why), names in found.items():
        yield f"in {arithmetic}, not exactly: {', '.join(names)}: {why}"


def describe_source(
    checkpoint: Checkpoint,
    subjects: Mapping[str, CollapseSubject],
    variants: Mapping[str, Switches],
    arithmetics: Mapping[str, str],
) -> dict[str, Any]:
    """The model's identity, what each variant switches on, and how residuals were found."""
    ways = dict.fromkeys(arithmetics.values())
    return {
        **checkpoint.identity,
        "variants": {name: asdict(switches) for name, switches in variants.items()},
        "random_twin": RANDOM_SUFFIX in subjects,
        "residual": "; ".join(map(way_in_words, ways)),
        "arithmetic": dict(arithmetics),
    }


def way_in_words(arithmetic: str) -> str:
    if arithmetic == EXACT:
        return "common row and residual carried apart"
    return f"by subtraction in {arithmetic}, twice: what rounding changes is told"


def arithmetic_in_words(arithmetics: Mapping[str, str]) -> str:
    """For a title: that of most variants, and which ones are not run so."""
    if set(arithmetics.values()) == {EXACT}:
        return "exact"
    (plain,) = set(arithmetics.values()) - {EXACT}
    names = [name for name, arithmetic in arithmetics.items() if arithmetic == plain]
    text = f"in {plain} ± rounding"
    return text if len(names) == len(arithmetics) else f"exact, but {', '.join(names)} {text}"


def views(
    everywhere: Mapping[StatePlace, Ensemble],
    metrics: Sequence[str],
    texts: int,
    arithmetics: Mapping[str, str],
) -> Iterator[View]:
    how = arithmetic_in_words(arithmetics)
    over = averaged(texts, "texts")
    several = len({place.stack for place in everywhere}) > 1
    whole: dict[str, Scalar] = {"after": ""} if any(place.after for place in everywhere) else {}
    for place in everywhere:
        of = f" of {place.stack}" if several else ""
        after = f"the {place.after} of each layer" if place.after else "each layer"
        for metric in metrics:
            if not any(
                metric in one.measured for found in everywhere[place].values() for one in found
            ):
                continue  # after the last sub-block the state is the block's
            yield View(
                title=f"{metric} after {after}{of}{over}; {how}",
                down="layer",
                across="variant",
                metrics=(metric,),
                where=whole | keys_of(place, several),
            )
    yield REGIMES
