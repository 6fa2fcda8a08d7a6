"""The question of `attn rank-collapse`."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attncli.analysis import MetricStudy
from attncli.commands.rank_collapse.options import NOT_GATED, CollapseOptions
from attncli.errors import UsageError, require_known_names
from attncli.gates import Condition
from attncli.networks.ablation_variants import AblationSwitches
from attncli.options.model_and_input import SOURCE_ARGUMENT, InputOptions, ModelOptions
from attncli.options.run_and_output import RunOptions, split_comma_separated_names
from attncli.options.synthetic_network import (
    NetworkOptions,
    NormSwitchOptions,
    VariantOptions,
    VariantSwitchOptions,
)
from attncli.progress import Progress
from attncli.python.questions import RunContext, question
from attncli.records import Report

if TYPE_CHECKING:
    from attncli.model_and_file_sources import Source as Named
    from attncli.networks.network_weights import Network

EXAMPLES = """
attn rank-collapse                                  # four variants, 12 layers, 5 seeds
attn rank-collapse bert-base-uncased --with-random-init
attn rank-collapse ./checkpoint --text-file essays.txt --variants pure --plot
attn rank-collapse --mask causal --plot             # a causal mask slows the collapse
attn rank-collapse --no-skip --norm layer           # a single variant, by its switches
attn rank-collapse --metric stable_rank,log10_token_cosine_gap -o curves.csv
attn rank-collapse --layers 1 --sweep tokens=16:1024 --remove-outlier
attn rank-collapse random:bert --random-tokens 128 --arithmetic float64
attn rank-collapse net.safetensors --fail-if 'log10_residual[SAN+skip, layer=-1] < -3'
"""


Choose = Callable[..., dict[str, AblationSwitches]]
"""Chooses the variants from the default of the network's source."""


DEFAULT_METRICS = ("log10_residual",)
DEFAULT_SWEEP_METRICS = ("stable_rank", "log10_residual")


@question(own=("tokenizer", "inputs"))
def rank_collapse(
    *,
    source: str | None = SOURCE_ARGUMENT,
    options: CollapseOptions,
    variants: VariantOptions,
    switches: VariantSwitchOptions,
    model_switches: NormSwitchOptions,
    model: ModelOptions,
    inputs: InputOptions,
    network: NetworkOptions,
    run: RunOptions,
    how: RunContext,
) -> Report:
    """How fast does the residual to rank 1 decay over the layers, at which order, and what prevents it?

    After "Attention is not all you need: pure attention loses rank doubly exponentially with depth": self-attention
    without skips drives all tokens to one vector, cubing the distance in every layer. The common vector and the residual
    are tracked separately, so the curve continues far below the smallest float.

    """

    conditions = how.conditions
    default = DEFAULT_METRICS if options.sweep is None else DEFAULT_SWEEP_METRICS
    metrics = collect_requested_and_gated_metrics(options.metric or default, conditions)
    over = options.count_blocks_between_compared_states(metrics)
    choose = partial(variants.choose_ablation_variants, switches)
    from attncli.analysis.source_argument_checks import resolve_source_argument

    subject = resolve_source_argument(source, "rank_collapse", how.output)
    if subject.is_model:
        applied = model_switches.switch_layer_norms_in_variants(choose())
        if conditions:
            refuse_gates_on_absent_variants(conditions, applied, options.with_random_init)
        from attncli.commands.rank_collapse.run import prepare_model_collapse_study

        study = prepare_model_collapse_study(
            subject,
            applied,
            model,
            inputs,
            network.tokens,
            seed=run.seed or 0,
            arithmetic=options.resolve_arithmetic_option(),
            with_random_init=options.with_random_init,
            sub_blocks=options.sub_blocks,
            over=over,
            theorem=options.theorem,
        )
    elif options.sweep is None:
        study = prepare_network_collapse_study(
            subject,
            choose,
            network,
            run,
            conditions,
            over=over,
            theorem=options.theorem,
            gates=options.gates,
        )
    else:
        study = prepare_size_sweep(
            subject, options.sweep, choose, network, run, conditions, options.gradients
        )
    return how.run_measurement(partial(study, metrics=metrics))


def refuse_gates_on_absent_variants(
    conditions: Sequence[Condition], variants: Iterable[str], with_random_init: bool
) -> None:
    """Refuse, before the model runs, gates on variants that are not run."""
    from attncli.gates import refuse_gates_that_match_no_row

    twins = [f"{name}@random" for name in variants] if with_random_init else []
    refuse_gates_that_match_no_row(conditions, {"variant": [*variants, *twins]})


def collect_requested_and_gated_metrics(
    requested_names: Sequence[str], conditions: Sequence[Condition]
) -> list[str]:
    """The requested columns and those that gates need; unknown names are refused before the work."""
    from attncli.analysis.rank_collapse.metrics_over_layers import GROUPS
    from attncli.metrics import METRICS
    from attncli.metrics.steps import STEPS

    known = [*METRICS.names(), *STEPS.names(), *GROUPS]
    names = [
        each
        for name in split_comma_separated_names(requested_names)
        for each in GROUPS.get(name, (name,))
    ]
    require_known_names("metric", names, known)
    return list(dict.fromkeys([*names, *collect_metrics_that_gates_need(conditions, known)]))


def collect_metrics_that_gates_need(
    conditions: Sequence[Condition], known: Sequence[str]
) -> list[str]:
    """The metrics of gates that are measured only on request."""
    if not conditions:
        return []
    from attncli.analysis.rank_collapse.collapse_bound_rows import THEOREM_METRICS
    from attncli.analysis.rank_collapse.network_collapse import OWN_METRICS

    own = [*OWN_METRICS, *THEOREM_METRICS]
    gated = [condition.metric for condition in conditions]
    require_known_names("metric in the gate", gated, [*known, *own])
    return [name for name in gated if name not in own]


def prepare_network_collapse_study(
    source: "Named",
    choose: Choose,
    network: NetworkOptions,
    run: RunOptions,
    conditions: Sequence[Condition],
    over: int,
    theorem: bool,
    gates: bool,
) -> MetricStudy:
    """The study of one network over its layers, generated or from a file."""
    from attncli.analysis.rank_collapse.network_collapse import measure_network_collapse
    from attncli.analysis.source_argument_checks import describe_network_source
    from attncli.gates import refuse_gates_that_match_no_row
    from attncli.networks.network_weights import GeneratedNetwork

    networks: Sequence[Network]
    if source.kind == "synthetic":
        spec, chosen = network.build_network_specification(), choose()
        networks = [GeneratedNetwork(spec, seed) for seed in run.list_seeds()]
    else:
        from attncli.networks.network_files import FileNetwork

        saved = FileNetwork(source.path)
        spec, chosen = saved.spec, choose(default=saved.ablation_variant)
        networks = [saved]
    refuse_gates_that_match_no_row(
        conditions, {"variant": list(chosen), "layer": range(spec.layers + 1)}
    )
    study = partial(
        measure_network_collapse,
        networks,
        chosen,
        source=describe_network_source(source),
        over=over,
        theorem=theorem,
    )
    if not gates:
        return study
    if spec.attention != "gated":
        raise UsageError(NOT_GATED.format(spec.attention), about=["gates", "attention"])
    from attncli.commands.rank_collapse.attention_output_gates import add_output_gate_rows

    def run_study_with_output_gates(*, metrics: Sequence[str], progress: Progress) -> Report:
        return add_output_gate_rows(study(metrics=metrics, progress=progress), networks, chosen)

    return run_study_with_output_gates


def prepare_size_sweep(
    source: "Named",
    text: str,
    choose: Choose,
    network: NetworkOptions,
    run: RunOptions,
    conditions: Sequence[Condition],
    gradients: bool,
) -> MetricStudy:
    """The study over a range of one size; every point is checked before the first one runs."""
    from attncli.analysis.rank_collapse.size_sweep import (
        SWEPT,
        network_spec_at_swept_size,
        sweep_network_sizes,
    )
    from attncli.gates import refuse_gates_that_match_no_row
    from attncli.options.sweep_ranges import parse_size_sweep

    parameter, points = parse_size_sweep(text, SWEPT)
    spec = network.build_network_specification()
    specs = {point: network_spec_at_swept_size(spec, parameter, point) for point in points}
    refuse_gates_that_match_no_row(conditions, {"variant": list(choose()), parameter: points})
    return partial(
        sweep_network_sizes, specs, parameter, run.list_seeds(), choose(), gradients=gradients
    )
