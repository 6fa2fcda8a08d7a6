"""Options of `attn reproduce rank-heads`."""

from dataclasses import dataclass, field
from typing import Annotated

from attncli.commands.reproduce.options import task_option
from attncli.declare.options import Option
from attncli.options.patterns import RandomDrawOptions


@dataclass(frozen=True)
class HeadRankOptions:
    """A layer of heads that is trained here on one target."""

    length: Annotated[
        int | None,
        task_option(metavar="N", help="Number of tokens on the sphere. [default: 2]"),
    ] = None
    dimension: Annotated[
        int | None, task_option(metavar="D", help="Dimension of tokens and queries. [default: 8]")
    ] = None
    ranks: Annotated[
        list[str],
        task_option(
            metavar="R,…",
            help="Ranks of queries and keys. [default: the powers of 2 up to D, and D]",
        ),
    ] = field(default_factory=list)
    heads_times_rank: Annotated[
        list[str],
        task_option(
            metavar="N,…",
            help="Values of H · r: N / r heads of rank r, where that is a whole number. [default: D,4D]",
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True)
class TrainingSeeds(RandomDrawOptions):
    """Which trainings."""

    seeds: Annotated[
        int, Option(help="Number of trainings to average over, a seed each. [default: 2]")
    ] = 2
