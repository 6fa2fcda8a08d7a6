"""The network of the circle written out, on floats or on mpmath numbers; it shares no code with the package."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EPSILON = 1e-12


class Arithmetic:
    """Elementary functions of arrays of floats, or of mpmath numbers in a context of so many digits."""

    def __init__(self, digits: int | None = None) -> None:
        import math

        import mpmath  # type: ignore[import-untyped]

        n: Any = math if digits is None else mpmath.MPContext()
        if digits is not None:
            n.dps = digits
        self.number = float if digits is None else n.mpf
        self.pi = +n.pi
        self.exp, self.sqrt, self.tanh, self.log10 = (
            np.vectorize(function, otypes=[object]) for function in (n.exp, n.sqrt, n.tanh, n.log10)
        )

    def array(self, values: Array) -> Array:
        return np.vectorize(self.number, otypes=[object])(values)


def next_points(
    points: Array,
    weights: Mapping[str, Array],
    n: Arithmetic,
    skip: bool,
    mlp: bool,
    mlp_skip: bool,
) -> Array:
    """Both points [point, 2] after one application; `weights` and `points` are already of the arithmetic."""
    w = weights
    x = norm(points @ w["w_embed"] + w["b_embed"], w, "embedding", n)
    update = w["b_o"]
    for head in range(len(w["w_q"])):
        q, k, v = (x @ w[f"w_{name}"][head] + w[f"b_{name}"][head] for name in "qkv")
        logits = q @ k.T / n.sqrt(n.number(len(q.T)))
        powers = n.exp(logits - logits.max(axis=1, keepdims=True))
        update = update + powers / powers.sum(axis=1, keepdims=True) @ v @ w["w_o"][head]
    x = norm(x + update if skip else update, w, "attention", n)
    if mlp:
        update = gelu(x @ w["w_in"] + w["b_in"], n) @ w["w_out"] + w["b_out"]
        x = norm(x + update if mlp_skip else update, w, "mlp", n)
    return x @ w["w_readout"] + w["b_readout"]


def norm(x: Array, w: Mapping[str, Array], name: str, n: Arithmetic) -> Array:
    apart = x - x.sum(axis=1, keepdims=True) / n.number(x.shape[1])
    mean_square = (apart * apart).sum(axis=1, keepdims=True) / n.number(x.shape[1])
    return apart / n.sqrt(mean_square + n.number(EPSILON)) * w[f"{name}_gain"] + w[f"{name}_shift"]


def gelu(x: Array, n: Arithmetic) -> Array:
    inner = n.sqrt(2 / n.pi) * (x + n.number(0.044715) * x * x * x)
    return x / 2 * (1 + n.tanh(inner))


def log10_residual(points: Array, n: Arithmetic) -> float:
    return float(n.log10(size(points - points.sum(axis=0) / 2, n) / size(points, n)))


def size(matrix: Array, n: Arithmetic) -> Any:
    """√(largest column sum · largest row sum) of absolute values."""
    return n.sqrt(abs(matrix).sum(axis=0).max() * abs(matrix).sum(axis=1).max())
