"""Measurements of one layer's state as the model has it, one per file: massive activations and over-smoothing.

A file holds a function of its own name under `@metric(…)`: of an `_activation_state.ActivationState`, it returns one number. Tensors are only
used by their methods, so that nothing here imports torch.

    >>> from attncli.metrics.activations import ACTIVATIONS
    >>> ACTIVATIONS.names()[0], ACTIVATIONS.declaration_of_entry("max_activation").unit
    ('max_activation', '1')
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attncli.metrics import MetricRegistry

if TYPE_CHECKING:
    from attncli.metrics.activations._activation_state import ActivationState

ACTIVATIONS: MetricRegistry[Callable[["ActivationState"], float]] = MetricRegistry(
    "activation metric", "attncli.metrics.activations"
)
