"""SigLIP: a pre-norm encoder of image patches and one of text, both with learned absolute positions and no mask.

After the vision encoder's last block a head attends with a learned query and an MLP of its own; it is outside the
stacks and leaves no state here. There is no class token, and the text encoder looks both ways.
"""

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
    pixels, ids = only(inputs, "pixel_values", "input_ids")
    begins = {
        "vision_model.encoder": (patches(pixels.astype(np.float64), w), config.vision_config),
        "text_model.encoder": (words(ids, w), config.text_config),
    }
    found = Run()
    for side, (x, own) in begins.items():
        found.maps[side] = []
        found.states[side] = encoded(x, w, side, own, switches, found.maps[side])
    return found


def patches(pixels: Array, w: Weights) -> Array:
    """One token for each patch, row by row, from [channel, row, column]."""
    name = "vision_model.embeddings.patch_embedding"
    kernel = w[f"{name}.weight"]  # [feature, channel, row, column]
    size = kernel.shape[-1]
    channels, rows, columns = pixels.shape
    cut = pixels.reshape(channels, rows // size, size, columns // size, size)
    tokens = np.einsum("crmsn,fcmn->rsf", cut, kernel).reshape(-1, len(kernel))
    return tokens + w[f"{name}.bias"] + w["vision_model.embeddings.position_embedding.weight"]


def words(ids: Any, w: Weights) -> Array:
    positions = w["text_model.embeddings.position_embedding.weight"][np.arange(len(ids))]
    return w["text_model.embeddings.token_embedding.weight"][ids] + positions


def encoded(
    x: Array, w: Weights, side: str, config: Any, switches: Any, maps: list[Array]
) -> list[Array]:
    """The states of one encoder."""
    norm = partial(layer_norm, w=w, epsilon=config.layer_norm_eps)
    states = [x]
    for layer in range(config.num_hidden_layers):
        name = f"{side}.layers.{layer}"
        attend = partial(
            attended, w=w, name=f"{name}.self_attn", heads=config.num_attention_heads, maps=maps
        )
        mlp = partial(mlp_output, w=w, name=f"{name}.mlp", activation=config.hidden_act)
        x = pre_norm_block(
            x,
            [(partial(norm, name=f"{name}.layer_norm1"), attend)],
            (partial(norm, name=f"{name}.layer_norm2"), mlp),
            switches,
        )
        states.append(x)
    return states


def attended(x: Array, w: Weights, name: str, heads: int, maps: list[Array]) -> Array:
    q, k, v = (split_heads(linear(x, w, f"{name}.{part}_proj"), heads) for part in "qkv")
    context, p = attention(q, k, v, scale=q.shape[-1] ** -0.5)
    maps.append(p)
    return linear(context, w, f"{name}.out_proj")


def mlp_output(x: Array, w: Weights, name: str, activation: str) -> Array:
    return linear(ACTIVATIONS[activation](linear(x, w, f"{name}.fc1")), w, f"{name}.fc2")
