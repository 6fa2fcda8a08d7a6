"""Tiny BERT, GPT-2 and ViT models in arbitrary precision: the residual to rank 1 far below what float64 resolves.

The attention and the residual are those of `oracles.network`, in plain loops over numbers of MPFR; what the switches mean is
`oracles.forwards.common`. States are numpy arrays of such numbers. Meant for about 6 tokens, 8 features, 2 heads.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import network
from .forwards.common import Array, Weights, only, post_norm_block, pre_norm_block, weights
from .network import Function, Number, numbers

DIGITS = (60, 240, 960, 4000)
"""Precisions to try, in decimal digits."""
GUARD = 30
"""Digits that a residual must have left for its logarithm to count as resolved."""


class Layer(NamedTuple):
    """One block's parameters, in the axes of `network`: w_q [head, feature, key], w_o [head, value, feature] …"""

    attention: Mapping[str, Any]
    mlp_in: tuple[Any, Any]
    """Weight [in, out] and bias."""
    mlp_out: tuple[Any, Any]
    norm_1: tuple[Any, Any]
    """Gain and bias of the attention's norm."""
    norm_2: tuple[Any, Any]


class Network(NamedTuple):
    """What the loop needs to know of a model."""

    x: Any
    """The state before the first block [token, feature]."""
    layers: list[Layer]
    post_norm: bool
    mask: str
    activation: Function
    epsilon: float


def log10_residuals(model: Any, inputs: Any, switches: Any) -> list[float]:
    """log10 of ‖X - 1x̄^T‖/‖X‖ in the composite norm, before the first block and after each."""
    for digits in DIGITS:
        number = numbers(digits)
        found = [
            network.log10_residual(x.tolist(), number)
            for x in states(model, inputs, switches, digits)
        ]
        if min(found) > GUARD - digits:
            return found
    raise ValueError(f"a residual below 10^-{DIGITS[-1] - GUARD}: use fewer layers")


def states(model: Any, inputs: Any, switches: Any, digits: int | None) -> list[Any]:
    """[token, feature] before the first block and after each; in floats if `digits` is None."""
    number = numbers(digits)
    net = READERS[model.config.model_type](model, inputs, number)
    found = [net.x]
    for layer in net.layers:
        found.append(block(found[-1], layer, net, switches, number))
    return found


def block(x: Any, layer: Layer, net: Network, switches: Any, number: Number) -> Any:
    attend = partial(attended, layer=layer, mask=net.mask, number=number)
    mlp = partial(mlp_output, layer=layer, activation=net.activation)
    norm_1, norm_2 = (
        partial(layer_norm, gain=gain, bias=bias, epsilon=net.epsilon, number=number)
        for gain, bias in (layer.norm_1, layer.norm_2)
    )
    if net.post_norm:
        return post_norm_block(x, (attend, norm_1), (mlp, norm_2), switches)
    return pre_norm_block(x, [(norm_1, attend)], (norm_2, mlp), switches)


def attended(x: Any, layer: Layer, mask: str, number: Number) -> Any:
    settings = {"attention": "softmax", "positions": "none", "mask": mask}
    found = network.attention(x.tolist(), dict(layer.attention), settings, False, number)
    return np.array(found, dtype=object)


def mlp_output(x: Any, layer: Layer, activation: Function) -> Any:
    (w_in, b_in), (w_out, b_out) = layer.mlp_in, layer.mlp_out
    hidden = np.vectorize(activation, otypes=[object])(x @ w_in + b_in)
    return hidden @ w_out + b_out


def layer_norm(x: Any, gain: Any, bias: Any, epsilon: float, number: Number) -> Any:
    rows = []
    for row in x:
        centred = np.array(network.centred(row), dtype=object)
        variance = centred @ centred / len(row)
        rows.append(centred / number.sqrt(variance + number.convert(epsilon)))
    return np.array(rows, dtype=object) * gain + bias


def exact(values: Array, number: Number) -> Any:
    """The same values as numbers of the wanted kind, in an object array."""
    return np.vectorize(number.convert, otypes=[object])(values)


def gelu(number: Number) -> Function:
    """x Φ(x), by the error function."""
    root = number.sqrt(number.convert(2))
    return lambda x: x * (1 + number.erf(x / root)) / 2


def gelu_new(number: Number) -> Function:
    """Its approximation by tanh."""
    return partial(network.activate, kind="gelu", number=number)


ACTIVATIONS: Mapping[str, Callable[[Number], Function]] = {
    "gelu": gelu,
    "gelu_new": gelu_new,
}


def read_bert(model: Any, inputs: Any, number: Number) -> Network:
    config, w = model.config, weights(model)
    ids, types = only(inputs, "input_ids", "token_type_ids")
    word, position, kind = (
        exact(w[f"embeddings.{name}_embeddings.weight"], number)
        for name in ("word", "position", "token_type")
    )
    x = word[ids] + position[: len(ids)] + kind[types]
    gain, bias = (exact(w[f"embeddings.LayerNorm.{name}"], number) for name in ("weight", "bias"))
    x = layer_norm(x, gain, bias, config.layer_norm_eps, number)
    names = {
        **{part[0]: f"attention.self.{part}" for part in ("query", "key", "value")},
        "o": "attention.output.dense",
        "in": "intermediate.dense",
        "out": "output.dense",
        "norm_1": "attention.output.LayerNorm",
        "norm_2": "output.LayerNorm",
    }
    layers = [
        read_layer(w, f"encoder.layer.{layer}.", names, config.num_attention_heads, number)
        for layer in range(config.num_hidden_layers)
    ]
    activation = ACTIVATIONS[config.hidden_act](number)
    return Network(x, layers, True, "none", activation, config.layer_norm_eps)


def read_gpt2(model: Any, inputs: Any, number: Number) -> Network:
    config, w = model.config, weights(model)
    (ids,) = only(inputs, "input_ids")
    x = exact(w["wte.weight"][ids], number) + exact(w["wpe.weight"][: len(ids)], number)
    layers = []
    for layer in range(config.n_layer):
        own = as_linear_layers(w, f"h.{layer}.")
        names = {name: name for name in ("q", "k", "v", "o", "in", "out")}
        names |= {"norm_1": "ln_1", "norm_2": "ln_2"}
        layers.append(read_layer(own, "", names, config.n_head, number))
    activation = ACTIVATIONS[config.activation_function](number)
    return Network(x, layers, False, "causal", activation, config.layer_norm_epsilon)


def as_linear_layers(w: Weights, prefix: str) -> Weights:
    """GPT-2's packed [in, out] matrices of one block as single [out, in] ones."""
    own = {
        f"ln_{i}.{part}": w[f"{prefix}ln_{i}.{part}"] for i in "12" for part in ("weight", "bias")
    }
    packed = np.split(w[f"{prefix}attn.c_attn.weight"], 3, axis=1)
    biases = np.split(w[f"{prefix}attn.c_attn.bias"], 3)
    for name, weight, bias in zip("qkv", packed, biases, strict=True):
        own |= {f"{name}.weight": weight.T, f"{name}.bias": bias}
    for name, stored in {"o": "attn.c_proj", "in": "mlp.c_fc", "out": "mlp.c_proj"}.items():
        own |= {f"{name}.weight": w[f"{prefix}{stored}.weight"].T}
        own |= {f"{name}.bias": w[f"{prefix}{stored}.bias"]}
    return own


def read_vit(model: Any, inputs: Any, number: Number) -> Network:
    config, w = model.config, weights(model)
    (pixels,) = only(inputs, "pixel_values")
    kernel = w["embeddings.patch_embeddings.projection.weight"]  # [feature, channel, row, column]
    size, features = kernel.shape[-1], len(kernel)
    starts = [
        (r, c) for r in range(0, pixels.shape[1], size) for c in range(0, pixels.shape[2], size)
    ]
    patches = np.stack([pixels[:, r : r + size, c : c + size].ravel() for r, c in starts])
    projected = exact(patches, number) @ exact(kernel.reshape(features, -1).T, number)
    projected = projected + exact(w["embeddings.patch_embeddings.projection.bias"], number)
    tokens = np.concatenate([exact(w["embeddings.cls_token"][0], number), projected])
    x = tokens + exact(w["embeddings.position_embeddings"][0], number)
    names = {part: f"attention.{part}_proj" for part in "qkvo"}
    names |= {"in": "mlp.fc1", "out": "mlp.fc2"}
    names |= {"norm_1": "layernorm_before", "norm_2": "layernorm_after"}
    layers = [
        read_layer(w, f"layers.{layer}.", names, config.num_attention_heads, number)
        for layer in range(config.num_hidden_layers)
    ]
    activation = ACTIVATIONS[config.hidden_act](number)
    return Network(x, layers, False, "none", activation, config.layer_norm_eps)


def read_layer(
    w: Weights, prefix: str, names: Mapping[str, str], heads: int, number: Number
) -> Layer:
    """One block; `names` says where q, k, v, o, in, out, norm_1 and norm_2 stand, as torch's [out, in] matrices."""

    def pair(name: str) -> tuple[Any, Any]:
        weight, bias = (w[f"{prefix}{names[name]}.{part}"] for part in ("weight", "bias"))
        return exact(weight.T, number), exact(bias, number)

    attention: dict[str, Any] = {}
    for name in "qkv":
        weight, bias = pair(name)
        attention[f"w_{name}"] = [part.tolist() for part in np.split(weight, heads, axis=1)]
        attention[f"b_{name}"] = [part.tolist() for part in np.split(bias, heads)]
    weight, bias = pair("o")
    attention["w_o"] = [part.tolist() for part in np.split(weight, heads)]
    attention["b_o"] = bias.tolist()
    return Layer(attention, pair("in"), pair("out"), pair("norm_1"), pair("norm_2"))


READERS: Mapping[str, Callable[[Any, Any, Number, int | None], Network]] = {
    "bert": read_bert,
    "gpt2": read_gpt2,
    "vit": read_vit,
}
"""By `config.model_type`."""
