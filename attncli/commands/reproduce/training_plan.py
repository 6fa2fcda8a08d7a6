"""How long a network is trained, and how fast."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from attncli.records import Scalar


@dataclass(frozen=True)
class TrainingPlan:
    """Steps of Adam at a learning rate that rises, stays and falls."""

    steps: int
    learning_rate: float
    """The highest one."""
    warm_up: int = 0
    """Steps in which it rises from 0, linearly."""
    cool_down: int = 0
    """Last steps in which it falls to 0, linearly."""
    largest_gradient: float | None = None
    """Largest gradient norm; longer gradients are clipped to it."""
    identity: Mapping[str, Scalar] = field(default_factory=dict)
    """What else identifies this training: the task, the sizes of network and data, the seed."""

    def learning_rate_at_step(self, step: int) -> float:
        """The learning rate of step 0, 1, 2 …"""
        rising = (step + 1) / (self.warm_up + 1)
        falling = (self.steps - step) / (self.cool_down + 1)
        return self.learning_rate * min(1.0, rising, falling)
