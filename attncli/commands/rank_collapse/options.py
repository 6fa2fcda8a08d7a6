"""Options of `attn rank-collapse`: what is measured of the residual, and against what."""

from collections.abc import Sequence
from dataclasses import dataclass

from attncli.declare.option_declarations import (
    ANY_MODEL,
    NETWORKS,
    SYNTHETIC,
    Applies,
    declare_option,
)
from attncli.errors import UsageError, make_unknown_name_error
from attncli.networks.network_spec import KINDS
from attncli.options.model_and_input import ARITHMETICS, AUTO, EXACTLY, OF_MODELS, PLAIN
from attncli.options.value_completion import complete_depth_metric
from attncli.registry import list_entry_names

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


@dataclass(frozen=True)
class CollapseOptions:
    """What to measure, of which states, and against which controls."""

    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=complete_depth_metric,
        usual=True,
        help=(
            "Metrics to report (see `attn list metrics`), or a group: depth (what each further block "
            "contributes), spike (the token with massive activations). [default: log10_residual]"
        ),
    )
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
    )
    arithmetic: str | None = declare_option(
        metavar="|".join(ARITHMETICS),
        applies=(OF_MODELS, OF_ONE_TYPE),
        help=(
            "How a model's residual is computed: exactly, with common vector and residual tracked separately, or "
            "in plain numbers, with the lost digits measured. [default: auto, exact wherever there are rules]"
        ),
    )
    exact: bool = declare_option(
        default=False,
        applies=Applies(to=ANY_MODEL, excludes=(f"arithmetic:{AUTO}", f"arithmetic:{PLAIN}")),
        help="Short for --arithmetic exact.",
    )
    with_random_init: bool = declare_option(
        default=False,
        applies=OF_MODELS,
        usual=True,
        help="Also run the same architecture with random weights.",
    )
    sub_blocks: bool = declare_option(
        default=False,
        applies=OF_MODELS,
        help="Also report the state after the attention of each block of a model.",
    )
    theorem: bool = declare_option(
        default=False,
        applies=OF_LAYERS,
        help="The paper's theorem at each layer: β, whether its one-layer bound is proved there, and the bound next to what attention does.",
    )
    gates: bool = declare_option(
        default=False,
        applies=(Applies(to=NETWORKS), OF_LAYERS, *OF_GATED),
        help=(
            "Also report what each head's gate does, with --attention gated; for models, use `attn inspect-model "
            "--metric gates`."
        ),
    )
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
    )
    blocks: int | None = declare_option(
        metavar="N",
        applies=(
            Applies(excludes=("sweep",), why=OF_TWO_STATES),
            Applies(
                needs=(*TWO_STATES, "metric:depth", "metric:spike", "fail_if"), why=OF_TWO_STATES
            ),
        ),
        help="Distance in blocks for metrics that compare two states, such as angular_distance. [default: 1]",
    )

    def resolve_arithmetic_option(self) -> str:
        """By either of the two options."""
        if self.arithmetic is not None and self.arithmetic not in ARITHMETICS:
            raise make_unknown_name_error("arithmetic", self.arithmetic, ARITHMETICS)
        return EXACTLY if self.exact else self.arithmetic or AUTO

    def count_blocks_between_compared_states(self, metrics: Sequence[str]) -> int:
        """Number of blocks between two states that a metric compares; refused if no metric compares
        states."""
        if self.blocks is None:
            return 1
        from attncli.metrics.steps import STEPS

        if self.blocks < 1:
            raise UsageError(f"`blocks={self.blocks}`: it must be at least 1.")
        if not set(metrics) & set(STEPS.names()):
            raise UsageError(OF_TWO_STATES, about=["blocks"])
        return self.blocks
