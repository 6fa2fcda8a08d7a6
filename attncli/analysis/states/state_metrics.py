"""Metrics of states and of what blocks do to them, selected by name and measured during the pass."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from attncli.maths.residuals.common_row_plus_deviation import SplitState
from attncli.metrics import METRICS, Metric
from attncli.metrics.steps import STEPS, StepMetric
from attncli.records import NOT_APPLICABLE, Definition

NO_STEP = (
    f"{NOT_APPLICABLE}the block's input and output are not the same tokens, or one of them is zero"
)

GROUPS: Mapping[str, Sequence[str]] = {
    "depth": (
        "block_influence",
        "angular_distance",
        "update_ratio",
        "log10_variance",
        "effective_rank_90",
        "clusters",
        "cluster_energy",
    ),
    "spike": ("spike_ratio", "spike_features", "spike_turn"),
}
"""Groups of metrics: the effect of one more layer; how a token comes to dominate, and for how long.
"""

AFTER_MLP = "mlp"
"""Name of the last sub-block: the state after it is the block's, its change is its own."""


def metric_definition(name: str) -> Definition:
    return STEPS.definition(name) if name in STEPS.names() else METRICS.definition(name)


class StateMetrics:
    """The metrics of one run."""

    def __init__(self, metrics: Iterable[str]) -> None:
        known = set(STEPS.names())
        chosen = list(metrics)
        self.of_state: Mapping[str, Metric] = {n: METRICS[n] for n in chosen if n not in known}
        self.of_step: Mapping[str, StepMetric] = {n: STEPS[n] for n in chosen if n in known}

    @property
    def names(self) -> list[str]:
        return [*self.of_state, *self.of_step]

    def state(self, state: SplitState) -> dict[str, float]:
        return {name: measure(state) for name, measure in self.of_state.items()}

    def step(self, before: SplitState | None, after: SplitState) -> dict[str, float]:
        """nan where there is no state before, or one of other tokens."""
        alike = before is not None and before.varying.mantissa.shape == after.varying.mantissa.shape
        return {
            name: measure(before, after) if before is not None and alike else math.nan
            for name, measure in self.of_step.items()
        }


T = TypeVar("T")


class PreviousStates(Generic[T]):
    """The states that steps lead from: those after the last blocks of every stack, and one inside the present block."""

    def __init__(self, over: int = 1) -> None:
        self.over = over
        """Number of blocks per step."""
        self.whole: dict[str, deque[tuple[int, T]]] = {}
        self.inner: dict[str, tuple[int, T]] = {}
        self.names: dict[str, list[str]] = {}
        """Of the states inside the present block, in their order."""

    def add_block_state(self, stack: str, index: int, state: T) -> None:
        """The state after a block."""
        self.whole.setdefault(stack, deque(maxlen=self.over)).append((index, state))

    def add_sub_block_state(self, stack: str, index: int, state: T, after: str) -> None:
        """Record a state inside the block of this index, after the sub-block of that name."""
        if not self.has_state_before(stack, index):
            self.names[stack] = []
        self.names[stack].append(after)
        self.inner[stack] = index, state

    def state_before_block(self, stack: str, index: int) -> T | None:
        """The input of the blocks up to this index."""
        for earlier, state in self.whole.get(stack, ()):
            if earlier == index - self.over:
                return state
        return None

    def state_before_sub_block(self, stack: str, index: int) -> T | None:
        """The input of the present sub-block: the state after the previous one, or the block's own
        input."""
        earlier, state = self.inner.get(stack, (None, None))
        if earlier == index:
            return state
        blocks = self.whole.get(stack)
        return blocks[-1][1] if blocks and blocks[-1][0] == index - 1 else None

    def last_name(self, stack: str) -> str:
        """Of the present block's last sub-block; with its number where another one is called so, as in conformers."""
        names = self.names[stack]
        return f"{AFTER_MLP} {len(names) + 1}" if AFTER_MLP in names else AFTER_MLP

    def has_state_before(self, stack: str, index: int) -> bool:
        """Whether the block's last sub-block has a state of its own before it."""
        return self.inner.get(stack, (None,))[0] == index
