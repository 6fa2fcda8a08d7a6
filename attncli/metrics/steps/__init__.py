"""Measurements of what a block does to its state, one per file: a pure function of the state before and the one after.

A file holds a function of its own name under `@unit(…)`: of two split states with the same tokens, it returns one number.
"""

from collections.abc import Callable

from attncli.maths.residuals.split_state import SplitState
from attncli.records import Definition
from attncli.registry import Registry

STEPS = Registry("metric of blocks", "attncli.metrics.steps")

StepMetric = Callable[[SplitState, SplitState], float]


def definition(name: str) -> Definition:
    return Definition(STEPS[name].unit, STEPS.summary(name))  # type: ignore[attr-defined]
