"""Measurements of a head's weights alone, one per file: a pure function of one of its two products.

    W_QK = W_Q W_K^T   [feature, feature]   what the head's logits compare: x_i W_QK x_j^T
    W_OV = W_V W_O     [feature, feature]   what it moves from a token that it attends to

Both have the gain of the norm before the head folded in where that norm stands in the branch; biases, the norm's
centring and the scales of the logits (1/√d, YaRN's factor) are left out.

To add one, add a file `attncli/metrics/weights/NAME.py` with a function `NAME(qk) -> float` or `NAME(ov) -> float` under
`@metric(…)`, which has its unit: the parameter's name says which product it is given.

    >>> import numpy as np
    >>> from attncli.maths.matrices.low_rank_product import LowRankProduct
    >>> from attncli.metrics.weights import WEIGHTS
    >>> WEIGHTS["ov_stable_rank"](LowRankProduct(np.eye(8)[:, :2], np.eye(8)[:, :2]))
    2.0
"""

from collections.abc import Callable

from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics import MetricRegistry

WeightMetric = Callable[[LowRankProduct], float]

WEIGHTS: MetricRegistry[WeightMetric] = MetricRegistry("weight metric", "attncli.metrics.weights")

SCALE_FREE = ("dimensions", "share")
"""Units of metrics that do not change when weights are multiplied by a number: those have a control of random weights."""
