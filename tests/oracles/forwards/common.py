"""What all oracles share: weights as float64 arrays, a few layers, and what the switches mean.

Axes: token, feature; head, query, key. One text at a time, so nothing has a batch axis.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf, expit

Array = NDArray[np.float64]
Weights = dict[str, Array]
Layer = Callable[[Array], Array]

EVERYTHING = SimpleNamespace(
    skip=True, mlp=True, mlp_skip=True, norms=True, mlp_norm=False, as_published=False
)
"""The switches of the model as it is."""


@dataclass
class Run:
    """What one forward pass leaves behind, per stack."""

    states: dict[str, list[Array]] = field(default_factory=dict)
    """[token, feature]: before the first block and after each."""
    maps: dict[str, list[Array]] = field(default_factory=dict)
    """[head, query, key], one per attention."""


def weights(model: Any) -> Weights:
    """The parameters of the body without its head, under the names of the body."""
    tensors = model.base_model.state_dict()
    return {name: array(tensor) for name, tensor in tensors.items()}


def array(tensor: Any) -> Array:
    """A tensor of any float dtype as float64."""
    found: Array = tensor.detach().double().cpu().numpy()
    return found


def only(inputs: Mapping[str, Any], *names: str) -> list[Any]:
    """The named inputs of the one text, None where not given; an input that would be ignored is an error."""
    unread = set(inputs) - {*names, "attention_mask"}
    if unread:
        raise KeyError(f"the oracle does not read {sorted(unread)}")
    if "attention_mask" in inputs and not bool(inputs["attention_mask"].all()):
        raise ValueError("the oracles know no padding")
    found = [inputs[name].cpu().numpy() if name in inputs else None for name in names]
    if any(values is not None and len(values) != 1 for values in found):
        raise ValueError("the oracles take one text at a time")
    return [None if values is None else values[0] for values in found]


def linear(x: Array, w: Weights, name: str) -> Array:
    """x W^T + b, as torch stores W; without b where there is none."""
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def layer_norm(x: Array, w: Weights, name: str, epsilon: float) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * w[f"{name}.weight"] + w[f"{name}.bias"]


def rms_norm(x: Array, gain: Array, epsilon: float) -> Array:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * gain


def gelu(x: Array) -> Array:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def gelu_tanh(x: Array) -> Array:
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


ACTIVATIONS: Mapping[str, Layer] = {
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * expit(x),
}


def softmax(logits: Array) -> Array:
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def split_heads(x: Array, heads: int) -> Array:
    """[token, head · width] → [head, token, width]."""
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def merge_heads(x: Array) -> Array:
    """[head, token, width] → [token, head · width]."""
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float,
    bias: Array | float = 0.0,
    visible: NDArray[np.bool_] | None = None,
) -> tuple[Array, Array]:
    """The context [token, head · width] and the map [head, query, key], from [head, token, width]."""
    logits = np.einsum("hqd,hkd->hqk", q, k) * scale + bias
    if visible is not None:
        logits = np.where(visible, logits, -np.inf)
    p = softmax(logits)
    return merge_heads(np.einsum("hqk,hkd->hqd", p, v)), p


def causal(tokens: int, window: int | None = None) -> NDArray[np.bool_]:
    """Which keys a query sees: itself and those before it, the last `window` of them if there is one."""
    behind = np.arange(tokens)[:, None] - np.arange(tokens)
    return (behind >= 0) & (behind < (tokens if window is None else window))


def rotated(x: Array, inverse_frequencies: Array, scaling: float = 1.0) -> Array:
    """RoPE on [head, token, width]: turns feature m with feature m + half; features beyond 2 · half stay."""
    half = len(inverse_frequencies)
    angles = np.arange(x.shape[1])[:, None] * inverse_frequencies
    cos, sin = np.cos(angles) * scaling, np.sin(angles) * scaling
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    turned = [first * cos - second * sin, second * cos + first * sin, rest]
    return np.concatenate(turned, axis=-1)


def pre_norm(x: Array, norm: Layer, branch: Layer, skip: bool, norms: bool) -> Array:
    """One sublayer: x + f(norm(x))."""
    y = branch(norm(x) if norms else x)
    return x + y if skip else y


def pre_norm_block(
    x: Array, attentions: list[tuple[Layer, Layer]], mlp: tuple[Layer, Layer], s: Any
) -> Array:
    """(norm, branch) of each attention and of the MLP, one after the other; without the MLP its norm is gone too."""
    for norm, attend in attentions:
        x = pre_norm(x, norm, attend, s.skip, s.norms)
    return pre_norm(x, *mlp, s.mlp_skip, s.norms) if s.mlp else x


def post_norm_block(
    x: Array, attend: tuple[Layer, Layer], mlp: tuple[Layer, Layer], s: Any
) -> Array:
    """(branch, norm) of the attention and of the MLP: norm(x + f(x)).

    Without the MLP its norm is gone too, unless `mlp_norm` keeps it on the stream.
    """
    x = post_norm(x, *attend, s.skip, s.norms)
    if s.mlp:
        return post_norm(x, *mlp, s.mlp_skip, s.norms)
    return mlp[1](x) if s.mlp_norm and s.norms else x


def post_norm(x: Array, branch: Layer, norm: Layer, skip: bool, norms: bool) -> Array:
    """One sublayer: norm(x + f(x))."""
    y = x + branch(x) if skip else branch(x)
    return norm(y) if norms else y
