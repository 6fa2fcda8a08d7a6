"""Measurements of a head's weights alone, one per file: a pure function of one of its two products.

    W_QK = W_Q W_K^T   [feature, feature]   what the head's logits compare: x_i W_QK x_j^T
    W_OV = W_V W_O     [feature, feature]   what it moves from a token that it attends to

Both have the gain of the norm before the head folded in where that norm stands in the branch; biases, the norm's
centring and the scales of the logits (1/√d, YaRN's factor) are left out.

To add one, add a file `attncli/metrics/weights/NAME.py` with a function `NAME(product) -> float`, marked with the product
that it measures and its unit.
"""

from collections.abc import Callable
from typing import Literal

from attncli.maths.matrices.low_rank_product import Factored
from attncli.records import Definition
from attncli.registry import Registry

WEIGHTS = Registry("weight metric", "attncli.metrics.weights")

Product = Literal["qk", "ov"]
WeightMetric = Callable[[Factored], float]

SCALE_FREE = ("dimensions", "share")
"""Units of metrics that do not change when weights are multiplied by a number: those have a control of random weights."""


def measures(product: Product, unit: str) -> Callable[[WeightMetric], WeightMetric]:
    """Declare which product a metric measures, and its unit; the function itself is returned unchanged."""

    def attach(metric: WeightMetric) -> WeightMetric:
        metric.product = product  # type: ignore[attr-defined]
        metric.unit = unit  # type: ignore[attr-defined]
        return metric

    return attach


def metric_product(name: str) -> Product:
    product: Product = WEIGHTS[name].product  # type: ignore[attr-defined]
    return product


def definition(name: str) -> Definition:
    return Definition(WEIGHTS[name].unit, WEIGHTS.summary(name))  # type: ignore[attr-defined]
