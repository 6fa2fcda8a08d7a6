"""From the options of `attn reproduce rank-heads` to its report."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from attncli.analysis import Study
from attncli.commands.reproduce.options import (
    SavedTrainingOptions,
    open_training_folder,
    parse_whole_numbers,
    validate_number_or_default,
)
from attncli.commands.reproduce.rank_heads.options import HeadRankOptions
from attncli.errors import UsageError, quote_parameter_name
from attncli.options.pattern_approximation import RandomDrawOptions

if TYPE_CHECKING:
    pass

RANK_HEADS = "rank-heads"
MOST_DIMENSION, MOST_TOKENS, MOST_PRODUCT, MOST_STEPS = 256, 1024, 4096, 1_000_000


def prepare_head_rank_experiment(
    options: HeadRankOptions, training: SavedTrainingOptions, run: RandomDrawOptions
) -> Study:
    """Validate everything that can be validated before torch is imported."""
    from attncli.commands.reproduce.rank_heads.head_training_plan import (
        DIMENSION,
        TOKENS,
        TRAINING_STEPS,
        HeadRankExperiment,
    )

    dimension = validate_number_or_default(
        "dimension", options.dimension, DIMENSION, 2, MOST_DIMENSION
    )
    ranks = parse_positive_numbers(
        "ranks", options.ranks, dimension
    ) or powers_of_two_up_to_dimension(dimension)
    products = parse_positive_numbers("heads_times_rank", options.heads_times_rank, MOST_PRODUCT)
    setting = HeadRankExperiment(
        dimension=dimension,
        tokens=validate_number_or_default("length", options.length, TOKENS, 2, MOST_TOKENS),
        ranks=ranks,
        products=products or [dimension, 4 * dimension],
        seeds=run.list_seeds(),
        training_steps=validate_number_or_default(
            "train_steps", training.train_steps, TRAINING_STEPS, 0, MOST_STEPS
        ),
    )
    require_whole_number_of_heads(setting.ranks, setting.products)
    saved_as = open_training_folder(training.save_training, RANK_HEADS)
    from attncli.commands.reproduce.rank_heads.experiment import measure_errors_by_head_rank

    return partial(measure_errors_by_head_rank, setting, saved_as)


def powers_of_two_up_to_dimension(dimension: int) -> list[int]:
    """1, 2, 4 … and the dimension."""
    found = [1 << place for place in range(dimension.bit_length()) if 1 << place < dimension]
    return [*found, dimension]


def parse_positive_numbers(name: str, texts: Sequence[str], most: int) -> list[int]:
    """Smallest first."""
    return parse_whole_numbers(
        texts,
        most,
        lambda text: (
            f"{quote_parameter_name(name)} must be whole numbers from 1 to {most:,} with commas between, not {text!r}."
        ),
    )


def require_whole_number_of_heads(ranks: Sequence[int], products: Sequence[int]) -> None:
    """Refuse ranks that divide none of the products, and products that no rank divides."""
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
