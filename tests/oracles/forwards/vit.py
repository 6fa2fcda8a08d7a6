"""ViT: pre-norm encoder of image patches behind one class token, learned absolute positions."""

from functools import partial
from typing import Any

import numpy as np

from .common import (
    ACTIVATIONS,
    EVERYTHING,
    Array,
    Run,
    Weights,
    attention,
    layer_norm,
    linear,
    only,
    pre_norm_block,
    split_heads,
    weights,
)


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w, config = weights(model), model.config
    (pixels,) = only(inputs, "pixel_values")
    x = embedded(pixels.astype(np.float64), w)
    norm = partial(layer_norm, w=w, epsilon=config.layer_norm_eps)
    states, maps = [x], []
    for layer in range(config.num_hidden_layers):
        name = f"layers.{layer}"
        attend = partial(
            attended, w=w, name=f"{name}.attention", heads=config.num_attention_heads, maps=maps
        )
        mlp = partial(mlp_output, w=w, name=f"{name}.mlp", activation=config.hidden_act)
        x = pre_norm_block(
            x,
            [(partial(norm, name=f"{name}.layernorm_before"), attend)],
            (partial(norm, name=f"{name}.layernorm_after"), mlp),
            switches,
        )
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def embedded(pixels: Array, w: Weights) -> Array:
    """Class token and patches, row by row, from [channel, row, column]."""
    kernel = w["embeddings.patch_embeddings.projection.weight"]  # [feature, channel, row, column]
    size = kernel.shape[-1]
    channels, rows, columns = pixels.shape
    cut = pixels.reshape(channels, rows // size, size, columns // size, size)
    patches = np.einsum("crmsn,fcmn->rsf", cut, kernel).reshape(-1, len(kernel))
    patches += w["embeddings.patch_embeddings.projection.bias"]
    tokens = np.concatenate([w["embeddings.cls_token"][0], patches])
    return tokens + w["embeddings.position_embeddings"][0]


def attended(x: Array, w: Weights, name: str, heads: int, maps: list[Array]) -> Array:
    q, k, v = (split_heads(linear(x, w, f"{name}.{part}_proj"), heads) for part in "qkv")
    context, p = attention(q, k, v, scale=q.shape[-1] ** -0.5)
    maps.append(p)
    return linear(context, w, f"{name}.o_proj")


def mlp_output(x: Array, w: Weights, name: str, activation: str) -> Array:
    return linear(ACTIVATIONS[activation](linear(x, w, f"{name}.fc1")), w, f"{name}.fc2")
