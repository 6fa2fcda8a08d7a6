"""Which layers are trained on the nearest token, and for how long."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from attncli.commands.reproduce.training_plan import TrainingPlan

DIMENSION, TOKENS = 8, 2
TRAINING_STEPS = 1500
LEARNING_RATE = 0.02


@dataclass(frozen=True)
class HeadRankExperiment:
    """The layers of a study, and the settings that they share."""

    dimension: int
    tokens: int
    ranks: Sequence[int]
    products: Sequence[int]
    """H · r."""
    seeds: Sequence[int]
    training_steps: int = TRAINING_STEPS

    def iterate_total_ranks_and_head_ranks(self) -> Iterator[tuple[int, int]]:
        """H · r and r of each."""
        for product in self.products:
            for rank in self.ranks:
                if product % rank == 0:
                    yield product, rank

    def build_training_plan(self, product: int, rank: int) -> TrainingPlan:
        """One training for all seeds at once."""
        steps = self.training_steps
        return TrainingPlan(
            steps=steps,
            learning_rate=LEARNING_RATE,
            warm_up=steps // 20,
            cool_down=steps // 2,
            identity={
                "task": "rank-heads",
                "dimension": self.dimension,
                "tokens": self.tokens,
                "rank": rank,
                "heads": product // rank,
                "seeds": ",".join(map(str, self.seeds)),
            },
        )
