"""Measurements of one layer's state as the model has it, one per file: massive activations and over-smoothing.

A file holds a function of its own name under `@unit(…)`: of an `_state.State`, it returns one number. Tensors are only
used by their methods, so that nothing here imports torch.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from attncli.records import Definition
from attncli.registry import Registry

ACTIVATIONS = Registry("activation metric", "attncli.metrics.activations")

Function = TypeVar("Function", bound=Callable[..., Any])


def unit(name: str) -> Callable[[Function], Function]:
    """Name a metric's unit; the function itself is returned untouched."""

    def attach(function: Function) -> Function:
        function.unit = name  # type: ignore[attr-defined]
        return function

    return attach


def definition(name: str) -> Definition:
    return Definition(ACTIVATIONS[name].unit, ACTIVATIONS.summary(name))  # type: ignore[attr-defined]
