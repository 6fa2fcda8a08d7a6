"""Options of `attn paths` that select the paths and their metrics."""

from dataclasses import dataclass

from attncli.declare.option_declarations import (
    ANY_MODEL,
    NETWORKS,
    Applies,
    declare_option,
    join_number_lists_with_commas,
)
from attncli.errors import UsageError, make_unknown_name_error, require_known_names
from attncli.options.model_and_input import OF_MODELS, STACK_OPTION
from attncli.options.run_and_output import split_comma_separated_names
from attncli.options.value_completion import complete_metric

HEAD, STEPS = "head", "steps"
WAYS = (HEAD, STEPS)
"""How the output may be decomposed."""

ONE_QUESTION = "{other} and {name} are different questions: give one of them."
OF_LENGTHS = Applies(
    excludes=("path", "sample", "by"),
    why="{name} is about all paths of a length: leave it out here.",
)

KINDS_OF_STEP = ("attention", "mlp")
"""The kinds of steps that a path may take or skip."""

MOST_SAMPLES = 100_000


@dataclass(frozen=True)
class PathOptions:
    """Which paths to measure, and how."""

    metric: list[str] | None = declare_option(
        metavar="NAME,…",
        complete=complete_metric,
        applies=OF_LENGTHS,
        help="Metrics of each length's term (see `attn list metrics`). [default: log10_residual,stable_rank]",
    )
    skip: bool = declare_option(
        "--skip/--no-skip",
        default=True,
        applies=Applies(to=NETWORKS),
        help="With skip connections, or without: then every path has the full length.",
    )
    path: list[str] | None = declare_option(
        metavar="N,N,…",
        help="Measure one path: for each layer a head, counted from 1, or 0 for the skip. Repeatable.",
        in_words=join_number_lists_with_commas,
    )
    sample: int | None = declare_option(
        metavar="N",
        usual=True,
        applies=Applies(excludes=("path", "by"), why=ONE_QUESTION),
        help="Sample N random paths of every length and report their quantiles.",
    )
    by: str | None = declare_option(
        metavar="head|steps",
        usual=True,
        applies=(
            Applies(excludes=("path",), why=ONE_QUESTION),
            Applies(
                to=ANY_MODEL,
                only=(STEPS,),
                why="{setting} is about MLPs: name a model as `source`.",
            ),
        ),
        help=(
            "Share of the output through each head and each skip, or (models only) by number of attention and MLP "
            "steps."
        ),
    )
    steps: list[str] | None = declare_option(
        metavar="attention,mlp",
        usual=True,
        applies=(OF_MODELS, OF_LENGTHS),
        help="What counts as a step of a model's paths. [default: attention]",
    )
    loss: bool = declare_option(
        default=False,
        applies=(OF_MODELS, OF_LENGTHS),
        help="Loss of a next-token model when only paths up to each length are kept.",
    )
    stack: str | None = STACK_OPTION

    @property
    def selects_single_paths(self) -> bool:
        """Rather than of all paths of a length."""
        return bool(self.path) or self.sample is not None or self.by is not None

    def parse_path_step_kinds(self) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(split_comma_separated_names(self.steps or [KINDS_OF_STEP[0]])))
        require_known_names("kind of step", names, KINDS_OF_STEP)
        return names

    def refuse_invalid_path_options(self) -> None:
        """Values that there are not."""
        if self.by is not None and self.by not in WAYS:
            raise make_unknown_name_error("way to take the output apart, `by`", self.by, WAYS)
        if self.sample is not None and not 1 <= self.sample <= MOST_SAMPLES:
            raise UsageError(f"`sample` must be from 1 to {MOST_SAMPLES:,}, not {self.sample}.")
