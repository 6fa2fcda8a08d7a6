"""GPT-2: pre-norm causal decoder, learned absolute positions. Its matrices are stored [in, out]."""

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
    causal,
    layer_norm,
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
    (ids,) = only(inputs, "input_ids")
    x = w["wte.weight"][ids] + w["wpe.weight"][np.arange(len(ids))]
    norm = partial(layer_norm, w=w, epsilon=config.layer_norm_epsilon)
    states, maps = [x], []
    for layer in range(config.n_layer):
        attend = partial(attended, w=w, layer=layer, config=config, maps=maps)
        mlp = partial(mlp_output, w=w, name=f"h.{layer}.mlp", config=config)
        x = pre_norm_block(
            x,
            [(partial(norm, name=f"h.{layer}.ln_1"), attend)],
            (partial(norm, name=f"h.{layer}.ln_2"), mlp),
            switches,
        )
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def affine(x: Array, w: Weights, name: str) -> Array:
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def attended(x: Array, w: Weights, layer: int, config: Any, maps: list[Array]) -> Array:
    name = f"h.{layer}.attn"
    q, k, v = (
        split_heads(part, config.n_head)
        for part in np.split(affine(x, w, f"{name}.c_attn"), 3, axis=1)
    )
    scale = q.shape[-1] ** -0.5 if config.scale_attn_weights else 1.0
    if config.scale_attn_by_inverse_layer_idx:
        scale /= layer + 1
    context, p = attention(q, k, v, scale=scale, visible=causal(len(x)))
    maps.append(p)
    return affine(context, w, f"{name}.c_proj")


def mlp_output(x: Array, w: Weights, name: str, config: Any) -> Array:
    hidden = ACTIVATIONS[config.activation_function](affine(x, w, f"{name}.c_fc"))
    return affine(hidden, w, f"{name}.c_proj")
