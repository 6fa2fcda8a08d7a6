"""How long the networks are trained, and how often each of them is applied."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from attncli.commands.reproduce.circle.network_design import NetworkDesign
from attncli.commands.reproduce.training_plan import TrainingPlan

WIDTHS = (32, 64, 128)
STEPS = 300
TRAINING_STEPS = 1190
"""70 epochs."""
LEARNING_RATE = 1e-5
"""All as released."""


@dataclass(frozen=True)
class Experiment:
    """Settings that all designs of a study share."""

    seeds: Sequence[int]
    training_steps: int = TRAINING_STEPS
    steps: int = STEPS
    """Of the recurrence."""

    def build_training_plan(self, design: NetworkDesign) -> TrainingPlan:
        """One training for all seeds at once."""
        identity = {
            "task": "circle",
            "seeds": ",".join(map(str, self.seeds)),
            "width": design.width,
            **asdict(design.switches),
            "running_sum": design.running_sum,
            "dropout": design.dropout,
        }
        return TrainingPlan(self.training_steps, LEARNING_RATE, identity=identity)
