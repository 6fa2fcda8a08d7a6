"""Measurements of a hidden state, one per file: a pure function of the split state (common row, residual).

To add one, add a file `attncli/metrics/NAME.py` with a function `NAME(state) -> float`, its unit in `@metric(…)` and its
definition in the first line of the docstring. A magnitude that can leave float range is named and returned as log10;
-inf then means that it is exactly zero.

The metrics of heads, activations, weights and steps are registries of the same kind in the packages below, with the same
decorator.

    >>> import numpy as np
    >>> from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
    >>> from attncli.metrics import METRICS
    >>> METRICS["stable_rank"](SplitState.from_states(np.eye(3)))
    3.0
    >>> METRICS.definition("stable_rank").unit
    'dimensions'
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.records import Definition
from attncli.registry import EntryDeclaration, Function, SpecifiedRegistry

Measurement_co = TypeVar("Measurement_co", bound=Callable[..., object], covariant=True)


@dataclass(frozen=True, slots=True)
class MetricSpec(EntryDeclaration):
    """The properties of a metric, known before it is computed."""

    unit: str
    group: str = "attention"
    """Of a metric of heads, its group in `--metric`."""
    needs: tuple[str, ...] = ()
    """What the map must have for the metric to apply, by the names in `_metric_accumulator.MetricTotals`."""
    axis: str = ""
    """The name of the last axis, where the metric is several numbers of a head."""
    signed: bool = False
    """Whether it is defined for weights of both signs too, as differential attention applies them."""
    take: str = "mean"
    """How the numbers of several queries, batch items and texts are reduced: mean, max or min."""
    enough: bool = False
    """Whether only queries count that see at least half as many keys as the one that sees the most."""
    undefined: str = ""
    """Why a head has no such number, where it is nan."""
    text: str = ""
    """The kind of text that attn generates for it; empty where it is measured on the user's, or on repeats."""
    of: str = ""
    """What the function is given: its first parameter's name, such as `state`, `rows` or `qk`."""
    parameter_type: type = object
    """That parameter's type."""

    def __call__(self, function: Function) -> Function:
        parameter = next(iter(inspect.signature(function).parameters.values()))
        return EntryDeclaration.__call__(
            replace(self, of=parameter.name, parameter_type=parameter.annotation), function
        )


metric = MetricSpec
"""As a decorator: `@metric("nats")`."""


class MetricRegistry(SpecifiedRegistry[Measurement_co, MetricSpec]):
    """Metrics of one thing, such as of states or of heads."""

    specification = MetricSpec

    def definition(self, name: str) -> Definition:
        return Definition(self.declaration_of_entry(name).unit, self.summary(name))


Metric = Callable[[SplitState], float]

METRICS: MetricRegistry[Metric] = MetricRegistry("metric", "attncli.metrics")
