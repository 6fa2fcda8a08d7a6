"""Measurements of what a block does to its state, one per file: a pure function of the state before and the one after.

A file holds a function of its own name under `@metric(…)`: of two split states with the same tokens, it returns one number.

    >>> import numpy as np
    >>> from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
    >>> from attncli.metrics.steps import STEPS
    >>> before, after = (SplitState.from_states(scale * np.eye(4)) for scale in (1.0, 1.5))
    >>> STEPS["update_ratio"](before, after)
    0.5
"""

from collections.abc import Callable

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.metrics import MetricRegistry

StepMetric = Callable[[SplitState, SplitState], float]

STEPS: MetricRegistry[StepMetric] = MetricRegistry("metric of blocks", "attncli.metrics.steps")
