"""The question of `attn rank-collapse`."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from attncli.analysis import MetricStudy
from attncli.declare.option_applicability import ANY_MODEL, NETWORKS, SYNTHETIC, Applies
from attncli.declare.options import declare_option
from attncli.errors import UsageError, make_unknown_name_error, require_known_names
from attncli.gates import Condition
from attncli.networks.spec import KINDS
from attncli.networks.variants import AblationSwitches
from attncli.options.completion import complete_depth_metric
from attncli.options.model import (
    ARITHMETICS,
    AUTO,
    EXACTLY,
    OF_MODELS,
    PLAIN,
    InputOptions,
    ModelOptions,
    Source,
)
from attncli.options.network import (
    NetworkOptions,
    NormSwitchOptions,
    VariantOptions,
    VariantSwitchOptions,
)
from attncli.options.shared import RunOptions, split_names
from attncli.progress import Progress
from attncli.python.questions import RunContext, question
from attncli.records import Report
from attncli.registry import list_entry_names

if TYPE_CHECKING:
    from attncli.networks.weights import Network
    from attncli.sources import Source as Named

EXAMPLES = """
attn rank-collapse                                  four variants, 12 layers, 5 seeds
attn rank-collapse bert-base-uncased --with-random-init
attn rank-collapse ./checkpoint --text-file essays.txt --variants pure --plot
attn rank-collapse --mask causal --plot             a mask leaves a linear rate
attn rank-collapse --no-skip --norm layer           one variant, by its switches
attn rank-collapse --metric stable_rank,log10_token_cosine_gap -o curves.csv
attn rank-collapse --layers 1 --sweep tokens=16:1024 --remove-outlier
attn rank-collapse random:bert --random-tokens 128 --arithmetic float64
attn rank-collapse net.safetensors --fail-if 'log10_residual[SAN+skip, layer=-1] < -3'
"""


TWO_STATES = tuple(f"metric:{name}" for name in list_entry_names("attncli.metrics.steps"))
OF_TWO_STATES = (
    "`blocks` goes with metrics that compare two states of one run: add `metric='angular_distance'`, block_influence "
    "or update_ratio, and leave `sweep` out."
)
NOT_GATED = "`gates` goes with `attention='gated'`, not {!r}."
OF_GATED = (
    Applies(needs=("attention:gated", "source"), why=NOT_GATED.format("softmax")),
    *(
        Applies(excludes=(f"attention:{kind}",), why=NOT_GATED.format(kind))
        for kind in KINDS["attention"]
        if kind != "gated"
    ),
)
"""Of networks that are made here; a file says itself what its attention is."""
OF_LAYERS = Applies(
    excludes=("sweep",), why="{name} is about the layers of one network: leave `sweep` out."
)


OF_ONE_TYPE = Applies(
    only=(PLAIN,),
    excludes=("dtype:float32", "dtype:bfloat16", "dtype:float16"),
    why="{setting} and {other_setting} exclude each other: {other_setting} alone runs in that type.",
)


Choose = Callable[..., dict[str, AblationSwitches]]
"""Chooses the variants from the default of the network's source."""


DEFAULT_METRICS = ("log10_residual",)
DEFAULT_SWEEP_METRICS = ("stable_rank", "log10_residual")


@question(own=("tokenizer", "inputs"))
def rank_collapse(
    *,
    source: Source = None,
    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=complete_depth_metric,
        usual=True,
        help=(
            "Metrics to report (see `attn list metrics`), or a group: depth (what each further block "
            "contributes), spike (the token with massive activations). [default: log10_residual]"
        ),
    ),
    sweep: str | None = declare_option(
        metavar="NAME=FROM:TO",
        applies=(
            Applies(to=NETWORKS),
            Applies(
                to=(*SYNTHETIC, *ANY_MODEL),
                why="`sweep` makes its own networks: leave {source} out.",
            ),
        ),
        help=(
            "Repeat over a range of tokens, heads, width, layers or init-scale: FROM:TO (doubling), "
            "FROM:TO:STEPS, or a list 1,2,4."
        ),
    ),
    arithmetic: str | None = declare_option(
        metavar="|".join(ARITHMETICS),
        applies=(OF_MODELS, OF_ONE_TYPE),
        help=(
            "How a model's residual is computed: exactly, with common vector and residual tracked separately, or "
            "in plain numbers, with the lost digits measured. [default: auto, exact wherever there are rules]"
        ),
    ),
    exact: bool = declare_option(
        default=False,
        applies=Applies(to=ANY_MODEL, excludes=(f"arithmetic:{AUTO}", f"arithmetic:{PLAIN}")),
        help="Short for --arithmetic exact.",
    ),
    with_random_init: bool = declare_option(
        default=False,
        applies=OF_MODELS,
        usual=True,
        help="Also run the same architecture with random weights.",
    ),
    sub_blocks: bool = declare_option(
        default=False,
        applies=OF_MODELS,
        help="Also report the state after the attention of each block of a model.",
    ),
    theorem: bool = declare_option(
        default=False,
        applies=OF_LAYERS,
        help="The theorem layer by layer: β, whether its one-layer bound is proved there, and that bound against what attention does.",
    ),
    gates: bool = declare_option(
        default=False,
        applies=(Applies(to=NETWORKS), OF_LAYERS, *OF_GATED),
        help=(
            "What each head's gate does in networks with --attention gated; for models, `inspect-model --metric "
            "gates`."
        ),
    ),
    gradients: bool = declare_option(
        default=False,
        applies=(
            Applies(to=NETWORKS),
            Applies(needs=("sweep",), why="`gradients` needs a range of sizes: add `sweep`."),
        ),
        help=(
            "With --sweep: size of the gradient of the last state with respect to the value weights, for one head "
            "without skips."
        ),
    ),
    blocks: int | None = declare_option(
        metavar="N",
        applies=(
            Applies(excludes=("sweep",), why=OF_TWO_STATES),
            Applies(
                needs=(*TWO_STATES, "metric:depth", "metric:spike", "fail_if"), why=OF_TWO_STATES
            ),
        ),
        help="Distance in blocks for metrics that compare two states, such as angular_distance. [default: 1]",
    ),
    variants: VariantOptions,
    switches: VariantSwitchOptions,
    model_switches: NormSwitchOptions,
    model: ModelOptions,
    inputs: InputOptions,
    network: NetworkOptions,
    run: RunOptions,
    how: RunContext,
) -> Report:
    """How fast does the residual to rank 1 decay over layers, what holds it up, and at which order?

    After "Attention is not all you need: pure attention loses rank doubly exponentially with depth": self-attention
    without skips drives all tokens to one vector, cubing the distance in every layer. The common vector and the residual
    are tracked separately, so the curve continues far below the smallest float.

    """

    conditions = how.conditions
    default = DEFAULT_METRICS if sweep is None else DEFAULT_SWEEP_METRICS
    metrics = collect_metrics(metric or default, conditions)
    over = resolve_block_span(blocks, metrics)
    choose = partial(variants.choose_variants, switches)
    chosen = resolve_arithmetic_option(arithmetic, exact)
    from attncli.analysis.source_arguments import resolve_source

    subject = resolve_source(source, "rank_collapse", how.output)
    if subject.is_model:
        applied = model_switches.change_variants(choose())
        refuse_gates_on_absent_variants(conditions, applied, with_random_init)
        from attncli.commands.rank_collapse.run import prepare_collapse

        study = prepare_collapse(
            subject,
            applied,
            model,
            inputs,
            network.tokens,
            seed=run.seed or 0,
            arithmetic=chosen,
            with_random_init=with_random_init,
            sub_blocks=sub_blocks,
            over=over,
            theorem=theorem,
        )
    elif sweep is None:
        study = prepare_network_curves(
            subject, choose, network, run, conditions, over=over, theorem=theorem, gates=gates
        )
    else:
        study = prepare_sweep(subject, sweep, choose, network, run, conditions, gradients)
    return how.measure(partial(study, metrics=metrics))


def resolve_block_span(blocks: int | None, metrics: Sequence[str]) -> int:
    """Number of blocks between two states that a metric compares; refused if no metric compares
    states."""
    if blocks is None:
        return 1
    from attncli.analysis.states.state_metrics import select_step_metrics

    if blocks < 1:
        raise UsageError(f"`blocks={blocks}`: it must be at least 1.")
    if not select_step_metrics(metrics):
        raise UsageError(OF_TWO_STATES, about=["blocks"])
    return blocks


def refuse_gates_on_absent_variants(
    conditions: Sequence[Condition], variants: Iterable[str], with_random_init: bool
) -> None:
    """Refuse, before the model runs, gates on variants that are not run."""
    from attncli.gates import refuse_gates_that_match_no_row

    twins = [f"{name}@random" for name in variants] if with_random_init else []
    refuse_gates_that_match_no_row(conditions, {"variant": [*variants, *twins]})


def resolve_arithmetic_option(arithmetic: str | None, exact: bool) -> str:
    """By either of the two options."""
    if arithmetic is not None and arithmetic not in ARITHMETICS:
        raise make_unknown_name_error("arithmetic", arithmetic, ARITHMETICS)
    return EXACTLY if exact else arithmetic or AUTO


def collect_metrics(requested_names: Sequence[str], conditions: Sequence[Condition]) -> list[str]:
    """The requested columns and those that gates need; unknown names are refused before the work."""
    from attncli.analysis.states.state_metrics import GROUPS, state_metric_names

    known = [*state_metric_names(), *GROUPS]
    requested_names = [
        each for name in split_names(requested_names) for each in GROUPS.get(name, (name,))
    ]
    names = split_names(requested_names)
    require_known_names("metric", names, known)
    return list(dict.fromkeys([*names, *collect_gated_metrics(conditions, known)]))


def collect_gated_metrics(conditions: Sequence[Condition], known: Sequence[str]) -> list[str]:
    """The metrics of gates that are measured only on request."""
    if not conditions:
        return []
    from attncli.analysis.states.collapse_bound_rows import THEOREM_METRICS
    from attncli.analysis.states.network_collapse import OWN_METRICS

    own = [*OWN_METRICS, *THEOREM_METRICS]
    gated = [condition.metric for condition in conditions]
    require_known_names("metric in the gate", gated, [*known, *own])
    return [name for name in gated if name not in own]


def prepare_network_curves(
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
    from attncli.analysis import synthetic_networks as sources
    from attncli.analysis.states.network_collapse import measure_network_collapse as curves
    from attncli.gates import refuse_gates_that_match_no_row

    if source.kind == "synthetic":
        networks: Sequence[Network] = sources.generate_networks(
            sources.build_network_spec(network), run
        )
        identity, chosen = sources.SYNTHETIC, choose()
    else:
        saved = sources.load_network(source)
        networks, identity, chosen = (
            [saved],
            sources.source_identity(source),
            choose(default=saved.variant),
        )
    spec = networks[0].spec
    refuse_gates_that_match_no_row(
        conditions, {"variant": list(chosen), "layer": range(spec.layers + 1)}
    )
    study = partial(curves, networks, chosen, source=identity, over=over, theorem=theorem)
    if not gates:
        return study
    if spec.attention != "gated":
        raise UsageError(NOT_GATED.format(spec.attention), about=["gates", "attention"])
    from attncli.commands.rank_collapse.network_output_gates import add_gate_rows

    def with_gates(*, metrics: Sequence[str], progress: Progress) -> Report:
        return add_gate_rows(study(metrics=metrics, progress=progress), networks, chosen)

    return with_gates


def prepare_sweep(
    source: "Named",
    text: str,
    choose: Choose,
    network: NetworkOptions,
    run: RunOptions,
    conditions: Sequence[Condition],
    gradients: bool,
) -> MetricStudy:
    """The study over a range of one size; every point is checked before the first one runs."""
    from attncli.analysis import synthetic_networks as sources
    from attncli.analysis.states.size_sweep import SWEPT, spec_at_point, sweep_sizes
    from attncli.gates import refuse_gates_that_match_no_row
    from attncli.options.size_ranges import parse_sweep

    parameter, points = parse_sweep(text, SWEPT)
    spec = sources.build_network_spec(network)
    specs = {point: spec_at_point(spec, parameter, point) for point in points}
    refuse_gates_that_match_no_row(conditions, {"variant": list(choose()), parameter: points})
    return partial(sweep_sizes, specs, parameter, run.all_seeds(), choose(), gradients=gradients)
