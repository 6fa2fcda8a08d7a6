"""Options of `attn reproduce rank-heads`."""

from dataclasses import dataclass

from attncli.commands.reproduce.options import task_option
from attncli.declare.option_declarations import declare_option
from attncli.options.pattern_approximation import RandomDrawOptions


@dataclass(frozen=True)
class HeadRankOptions:
    """A layer of heads that is trained here on one target."""

    length: int | None = task_option(
        metavar="N", help="Number of tokens on the sphere. [default: 2]"
    )
    dimension: int | None = task_option(
        metavar="D", help="Dimension of tokens and queries. [default: 8]"
    )
    ranks: list[str] = task_option(
        default=[],
        metavar="R,…",
        help="Ranks of queries and keys. [default: the powers of 2 up to D, and D]",
    )
    heads_times_rank: list[str] = task_option(
        default=[],
        metavar="N,…",
        help="Values of H · r: N / r heads of rank r, where that is a whole number. [default: D,4D]",
    )


@dataclass(frozen=True)
class TrainingSeeds(RandomDrawOptions):
    """Which trainings."""

    seeds: int = declare_option(
        default=2, help="Number of trainings to average over, a seed each. [default: 2]"
    )
