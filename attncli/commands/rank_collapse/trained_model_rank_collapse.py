"""`attn rank-collapse MODEL`: the published figure for any transformers model, its parts switched off exactly."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace

from attncli.ablation.albert_mlp_activation import describe_published_albert_variants
from attncli.analysis.distributed_text_loop import apply_to_each_text
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.analysis.means_and_confidence_intervals import describe_averaging
from attncli.analysis.rank_collapse.findings_and_headlines import (
    RANDOM_SUFFIX,
    average_residual_curves,
    build_depth_findings,
    combine_arithmetic_names,
    describe_residuals_lost_to_rounding,
    describe_what_prevents_collapse,
    find_first_layer_without_value,
    format_model_headline,
    format_stack_and_variant,
)
from attncli.analysis.rank_collapse.metrics_over_layers import (
    EXACT,
    ORDER,
    REGIMES,
    RESIDUAL,
    Ensemble,
    Trajectory,
    build_convergence_order_rows,
    build_state_metric_rows,
    find_state_or_step_metric_definition,
)
from attncli.analysis.rank_collapse.model_variant_runs import (
    CollapseModel,
    Curves,
    StateLocation,
    run_model_variants_on_text,
)
from attncli.capture.probe_causality_and_positions import AttentionProperties
from attncli.maths.curve_fits.decay_laws_over_layers import FEWEST_POINTS
from attncli.maths.curve_fits.rank_collapse_regime import describe_collapse_regime
from attncli.models.inputs.model_input import ModelInput, describe_inputs_besides_token_ids
from attncli.models.loading.loaded_model import LoadedModel
from attncli.networks.ablation_variants import AblationSwitches
from attncli.processes.divide_work_over_ranks import list_item_indices_of_rank
from attncli.progress import Progress, ignore_progress, make_progress_counter
from attncli.records import (
    ARITHMETIC,
    UNCERTAINTY,
    Facts,
    Finding,
    JsonObject,
    Report,
    Row,
    Scalar,
    View,
)


def measure_model_collapse(
    checkpoint: LoadedModel,
    subjects: Mapping[str, CollapseModel],
    prepared: PreparedModel,
    texts: Sequence[ModelInput],
    variants: Mapping[str, AblationSwitches],
    metrics: Sequence[str],
    sub_blocks: bool = False,
    progress: Progress = ignore_progress,
    over: int = 1,
) -> Report:
    """Measure the collapse. `subjects`: "" is the model, the random-init suffix its random-init
    model."""
    assert prepared.anatomy is not None
    measured = list(dict.fromkeys([RESIDUAL, *metrics]))
    identity = checkpoint.identity
    everywhere = run_variants_on_texts(
        subjects,
        identity,
        texts,
        variants,
        measured,
        sub_blocks=sub_blocks,
        over=over,
        progress=progress,
    )
    ensembles = {place.stack: found for place, found in everywhere.items() if not place.after}
    arithmetics = map_variants_to_arithmetic(ensembles)
    both = {name + suffix: variants[name] for suffix in subjects for name in variants}
    findings = tuple(describe_collapse_regimes(ensembles, both, prepared.anatomy.properties))
    return Report(
        study="rank-collapse",
        headline=format_model_headline(ensembles, findings),
        rows=tuple(build_model_collapse_rows(everywhere, len(ensembles) > 1, over)),
        metrics={name: find_state_or_step_metric_definition(name) for name in measured}
        | {"order": ORDER},
        source=describe_model_and_variants(checkpoint, subjects, variants, arithmetics),
        input={"texts": [text.describe_model_input() for text in texts]},
        views=tuple(build_collapse_tables(everywhere, metrics, len(texts), arithmetics)),
        findings=(
            *findings,
            *(
                finding
                for stack, ensemble in ensembles.items()
                for finding in build_depth_findings(
                    ensemble, f"{stack} " if len(ensembles) > 1 else ""
                )
            ),
        ),
        warnings=(
            *checkpoint.warnings,
            *describe_inputs_besides_token_ids(texts),
            *prepared.idle_towers,
            *subjects[""].anatomy.notes,
            *describe_published_albert_variants(subjects[""].anatomy, variants),
            *collect_reasons_for_inexact_variants(ensembles),
        ),
    )


def run_variants_on_texts(
    subjects: Mapping[str, CollapseModel],
    identity: Facts,
    texts: Sequence[ModelInput],
    variants: Mapping[str, AblationSwitches],
    metrics: Sequence[str],
    sub_blocks: bool,
    over: int,
    progress: Progress,
) -> dict[StateLocation, Ensemble]:
    """Run all variants on all texts: for each state location and variant, one trajectory per text."""
    total = len(subjects) * len(list_item_indices_of_rank(texts)) * len(variants)
    count_pass = make_progress_counter(progress, total, "forward passes")
    found: dict[StateLocation, dict[str, list[Trajectory]]] = {}
    for suffix, subject in subjects.items():

        def run_variants_on_text(
            place: int, text: ModelInput, subject: CollapseModel = subject
        ) -> dict[str, Curves]:
            return run_model_variants_on_text(
                subject, text, variants, metrics, count_pass, sub_blocks, over
            )

        made_of = (StateLocation, Trajectory)
        for ran in apply_to_each_text(
            subject.body, texts, run_variants_on_text, identity, f"collapse {suffix}", made_of
        ):
            for variant, curves in ran.items():
                for place, trajectory in curves.items():
                    per_variant = found.setdefault(place, {})
                    per_variant.setdefault(variant + suffix, []).append(trajectory)
    return dict(found)


def describe_collapse_regimes(
    ensembles: Mapping[str, Ensemble],
    variants: Mapping[str, AblationSwitches],
    properties: Mapping[str, AttentionProperties],
) -> Iterator[Finding]:
    """The regime of every variant in every stack."""
    for stack, ensemble in ensembles.items():
        for name, curve in average_residual_curves(ensemble).items():
            switches = variants[name]
            drag = ", ".join(
                filter(
                    None,
                    [
                        "the skip" if switches.skip else "",
                        properties[stack].causes_of_linear_collapse_rate,
                    ],
                )
            )
            support = describe_what_prevents_collapse(
                replace(switches, mlp=switches.mlp and properties[stack].mlps)
            )
            text = describe_regime_of_resolved_layers(curve, support, drag, ensemble[name])
            yield Finding(format_stack_and_variant(stack, name, ensembles), text)


def describe_regime_of_resolved_layers(
    curve: Sequence[float], support: str, drag: str, trajectories: Sequence[Trajectory]
) -> str:
    """Describe the regime from the layers with known residuals."""
    layer = find_first_layer_without_value(curve)
    if layer is None:
        return describe_collapse_regime(curve, support, drag)
    unknown = describe_residuals_lost_to_rounding(layer, trajectories)
    if layer < FEWEST_POINTS:
        return unknown
    return f"{describe_collapse_regime(curve[:layer], support, drag)}; {unknown}"


def build_model_collapse_rows(
    everywhere: Mapping[StateLocation, Ensemble], several_stacks: bool, over: int
) -> Iterator[Row]:
    for place, ensemble in everywhere.items():
        for variant, trajectories in ensemble.items():
            keys = report_row_keys_of_state_location(place, several_stacks) | {
                ARITHMETIC: combine_arithmetic_names(trajectories)
            }
            for row in build_state_metric_rows(
                variant, trajectories, keys, 1 if place.after else over
            ):
                if not (place.after and row.layer == 0):  # there is no block before state 0
                    yield note_rounding_uncertainty(row, trajectories)
            if not place.after:
                yield from build_convergence_order_rows(variant, trajectories, keys)


def report_row_keys_of_state_location(
    place: StateLocation, several_stacks: bool
) -> dict[str, Scalar]:
    """Row keys that distinguish state locations; empty where there is only one."""
    stack: dict[str, Scalar] = {"stack": place.stack} if several_stacks else {}
    return stack | ({"after": place.after} if place.after else {})


def note_rounding_uncertainty(row: Row, trajectories: Sequence[Trajectory]) -> Row:
    """Note on a number how far rounding may have changed it; on a null, that rounding has lost it."""
    plain = [one for one in trajectories if one.uncertain]
    if not plain or row.layer is None:
        return row
    if row.value is None:
        whys = filter(None, (one.unknown[row.metric][row.layer] for one in plain))
        return replace(row, note=next(whys, row.note))
    by = math.fsum(one.uncertain[row.metric][row.layer] for one in plain) / len(trajectories)
    return replace(row, keys={**row.keys, UNCERTAINTY: by})


def map_variants_to_arithmetic(ensembles: Mapping[str, Ensemble]) -> dict[str, str]:
    """The arithmetic of every variant; all its stacks use the same."""
    return {
        name: combine_arithmetic_names(trajectories)
        for ensemble in ensembles.values()
        for name, trajectories in ensemble.items()
    }


def collect_reasons_for_inexact_variants(ensembles: Mapping[str, Ensemble]) -> Iterator[str]:
    """Why variants are not exact, each reason once."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for ensemble in ensembles.values():
        for name, trajectories in ensemble.items():
            for one in trajectories:
                if one.why_plain:
                    found.setdefault((one.arithmetic, one.why_plain), {})[name] = None
    for (arithmetic, why), names in found.items():
        yield f"in {arithmetic}, not exactly: {', '.join(names)}: {why}"


def describe_model_and_variants(
    checkpoint: LoadedModel,
    subjects: Mapping[str, CollapseModel],
    variants: Mapping[str, AblationSwitches],
    arithmetics: Mapping[str, str],
) -> JsonObject:
    """The model's identity, the parts of each variant, and how residuals were computed."""
    ways = dict.fromkeys(arithmetics.values())
    return {
        **checkpoint.identity,
        "variants": {name: asdict(switches) for name, switches in variants.items()},
        "random_twin": RANDOM_SUFFIX in subjects,
        "residual": "; ".join(map(describe_how_states_are_computed, ways)),
        "arithmetic": dict(arithmetics),
    }


def describe_how_states_are_computed(arithmetic: str) -> str:
    if arithmetic == EXACT:
        return "common row and residual carried apart"
    return f"by subtraction in {arithmetic}, twice: what rounding changes is told"


def format_arithmetic_by_variant(arithmetics: Mapping[str, str]) -> str:
    """For a title: that of most variants, and which ones are not run so."""
    if set(arithmetics.values()) == {EXACT}:
        return "exact"
    (plain,) = set(arithmetics.values()) - {EXACT}
    names = [name for name, arithmetic in arithmetics.items() if arithmetic == plain]
    text = f"in {plain} ± rounding"
    return text if len(names) == len(arithmetics) else f"exact, but {', '.join(names)} {text}"


def build_collapse_tables(
    everywhere: Mapping[StateLocation, Ensemble],
    metrics: Sequence[str],
    texts: int,
    arithmetics: Mapping[str, str],
) -> Iterator[View]:
    how = format_arithmetic_by_variant(arithmetics)
    over = describe_averaging(texts, "texts")
    several = len({place.stack for place in everywhere}) > 1
    whole: dict[str, Scalar] = {"after": ""} if any(place.after for place in everywhere) else {}
    for place in everywhere:
        of = f" of {place.stack}" if several else ""
        after = f"the {place.after} of each layer" if place.after else "each layer"
        for metric in metrics:
            if not any(
                metric in one.values for found in everywhere[place].values() for one in found
            ):
                continue  # after the last sub-block the state is the block's
            yield View(
                title=f"{metric} after {after}{of}{over}; {how}",
                down="layer",
                across="variant",
                metrics=(metric,),
                where=whole | report_row_keys_of_state_location(place, several),
            )
    yield REGIMES
