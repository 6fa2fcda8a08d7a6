"""DistilBERT: post-norm encoder without token types; every norm has epsilon 1e-12, whatever the config says."""

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
    post_norm_block,
    split_heads,
    weights,
)

norm = partial(layer_norm, epsilon=1e-12)


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w, config = weights(model), model.config
    (ids,) = only(inputs, "input_ids")
    positions = w["embeddings.position_embeddings.weight"][np.arange(len(ids))]
    x = norm(w["embeddings.word_embeddings.weight"][ids] + positions, w, "embeddings.LayerNorm")
    states, maps = [x], []
    for layer in range(config.n_layers):
        name = f"transformer.layer.{layer}"
        x = post_norm_block(
            x,
            (
                partial(attend, w=w, name=f"{name}.attention", heads=config.n_heads, maps=maps),
                partial(norm, w=w, name=f"{name}.sa_layer_norm"),
            ),
            (
                partial(mlp, w=w, name=f"{name}.ffn", activation=config.activation),
                partial(norm, w=w, name=f"{name}.output_layer_norm"),
            ),
            switches,
        )
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def attend(x: Array, w: Weights, name: str, heads: int, maps: list[Array]) -> Array:
    q, k, v = (split_heads(linear(x, w, f"{name}.{part}_lin"), heads) for part in "qkv")
    context, p = attention(q, k, v, scale=q.shape[-1] ** -0.5)
    maps.append(p)
    return linear(context, w, f"{name}.out_lin")


def mlp(x: Array, w: Weights, name: str, activation: str) -> Array:
    return linear(ACTIVATIONS[activation](linear(x, w, f"{name}.lin1")), w, f"{name}.lin2")
