"""Measurements of what a block does to its state, one per file: a pure function of the state before and the one after.

A file holds a function of its own name under `@metric(…)`: of two split states with the same tokens, it returns one number.
"""

from collections.abc import Callable

from attncli.maths.residuals.common_row_plus_deviation import SplitState
from attncli.metrics import MetricRegistry

StepMetric = Callable[[SplitState, SplitState], float]

STEPS: MetricRegistry[StepMetric] = MetricRegistry("metric of blocks", "attncli.metrics.steps")
