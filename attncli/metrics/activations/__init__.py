"""Measurements of one layer's state as the model has it, one per file: massive activations and over-smoothing.

A file holds a function of its own name under `@unit(…)`: of an `_state.State`, it returns one number. Tensors are only
used by their methods, so that nothing here imports torch.
"""

from attncli.records import Definition
from attncli.registry import Registry

ACTIVATIONS = Registry("activation metric", "attncli.metrics.activations")


def definition(name: str) -> Definition:
    return Definition(ACTIVATIONS[name].unit, ACTIVATIONS.summary(name))  # type: ignore[attr-defined]
