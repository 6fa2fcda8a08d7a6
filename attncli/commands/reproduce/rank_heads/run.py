"""From the options of `attn approximate --task` to a study."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from attncli.commands.reproduce.options import (
    KeptTraining,
    task_option,
    trainings_in,
    whole_numbers,
    within,
)
from attncli.errors import UsageError, it_or_them, parameter, said_of, unknown_name
from attncli.options.completion import completion
from attncli.options.patterns import DrawOptions, PatternOptions

if TYPE_CHECKING:
    from attncli.records import Report

RANK_HEADS = "rank-heads"
FIT_TASKS = (RANK_HEADS,)
MOST_DIMENSION, MOST_TOKENS, MOST_PRODUCT, MOST_STEPS = 256, 1024, 4096, 1_000_000


@dataclass(frozen=True)
class FitTaskOptions:
    """A layer of heads that is trained here on one target."""

    task: Annotated[
        str | None,
        task_option(
            metavar="rank-heads",
            complete=completion(lambda: list(FIT_TASKS)),
            help=(
                "Train layers of H heads of rank r to pick the token nearest to a query, of --length tokens on the "
                "sphere (default 2): do many heads make up for low rank?"
            ),
        ),
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

    def given(self) -> list[str]:
        """But for the task itself."""
        return [name for name in changed(self) if name != "task"]


def refuse_fits_and_tasks(
    asked: FitTaskOptions, training: KeptTraining, patterns: PatternOptions, others: Sequence[Any]
) -> None:
    """What goes with the task alone, and what does not go with it."""
    if asked.task is None:
        names = [*asked.given(), *training.given()]
        if names:
            raise UsageError(
                f"{said_of(names, 'goes', 'go')} with `task='rank-heads'`: name the task.",
                idle=names,
            )
        return
    if asked.task not in FIT_TASKS:
        raise unknown_name("task", asked.task, FIT_TASKS)
    names = [name for name in changed(patterns) if name != "length"]
    for group in others:
        names += changed(group)
    if names:
        raise UsageError(
            f"{said_of(names, 'has', 'have')} no meaning for the layers of `task`: leave {it_or_them(names)} out.",
            idle=names,
            because=["task"],
        )


def changed(group: Any) -> list[str]:
    """Options of a group that are not as they are by default."""
    plain = type(group)()
    return [
        each.name
        for each in fields(group)
        if getattr(group, each.name) != getattr(plain, each.name)
    ]


def rank_head_study(
    asked: FitTaskOptions, training: KeptTraining, length: int | None, run: DrawOptions
) -> "Callable[..., Report]":
    """Everything that can be refused is, before torch is imported."""
    from attncli.commands.reproduce.rank_heads.head_plan import (
        DIMENSION,
        TOKENS,
        TRAINING_STEPS,
        RankHeads,
    )

    dimension = within("dimension", asked.dimension, DIMENSION, 2, MOST_DIMENSION)
    ranks = wanted_numbers("ranks", asked.ranks, dimension) or powers(dimension)
    products = wanted_numbers("heads_times_rank", asked.heads_times_rank, MOST_PRODUCT)
    wanted = RankHeads(
        dimension=dimension,
        tokens=within("length", length, TOKENS, 2, MOST_TOKENS),
        ranks=ranks,
        products=products or [dimension, 4 * dimension],
        seeds=run.all_seeds(),
        training_steps=within("train_steps", training.train_steps, TRAINING_STEPS, 0, MOST_STEPS),
    )
    refuse_parts_of_heads(wanted.ranks, wanted.products)
    saved_as = trainings_in(training.save_training, RANK_HEADS)
    from attncli.commands.reproduce.rank_heads.experiment import rank_heads

    return partial(rank_heads, wanted, saved_as)


def powers(dimension: int) -> list[int]:
    """1, 2, 4 … and the dimension."""
    found = [1 << place for place in range(dimension.bit_length()) if 1 << place < dimension]
    return [*found, dimension]


def wanted_numbers(name: str, given: Sequence[str], most: int) -> list[int]:
    """Smallest first."""
    return whole_numbers(
        given,
        most,
        lambda text: (
            f"{parameter(name)} must be whole numbers from 1 to {most:,} with commas between, not {text!r}."
        ),
    )


def refuse_parts_of_heads(ranks: Sequence[int], products: Sequence[int]) -> None:
    """Every number that was asked for is used."""
    for rank in ranks:
        if not any(product % rank == 0 for product in products):
            raise UsageError(
                f"rank {rank} of `ranks` divides no number of `heads_times_rank` ({', '.join(map(str, products))}): "
                "give a multiple of it."
            )
    for product in products:
        if not any(product % rank == 0 for rank in ranks):
            raise UsageError(
                f"`heads_times_rank={product}` is a multiple of none of the ranks {', '.join(map(str, ranks))}."
            )
