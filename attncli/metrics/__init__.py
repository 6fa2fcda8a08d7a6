"""Measurements of a hidden state, one per file: a pure function of the split state (common row, residual).

To add one, add a file `attncli/metrics/NAME.py` with a function `NAME(state) -> float`, its unit in `@unit(…)` and its
definition in the first line of the docstring. A magnitude that can leave float range is named and returned as log10;
-inf then means that it is exactly zero.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from attncli.maths.residuals.split_state import SplitState
from attncli.records import Definition
from attncli.registry import Registry

METRICS = Registry("metric", "attncli.metrics")

Metric = Callable[[SplitState], float]


Function = TypeVar("Function", bound=Callable[..., Any])


def unit(name: str) -> Callable[[Function], Function]:
    """Declare a metric's unit; the function itself is returned unchanged."""

    def attach(metric: Function) -> Function:
        metric.unit = name  # type: ignore[attr-defined]
        return metric

    return attach


def definition(name: str) -> Definition:
    return Definition(METRICS[name].unit, METRICS.summary(name))  # type: ignore[attr-defined]
