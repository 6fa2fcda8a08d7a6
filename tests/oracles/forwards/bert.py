"""BERT: post-norm encoder, learned absolute positions. RoBERTa and ELECTRA share its blocks."""

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


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w = weights(model)
    ids, types = only(inputs, "input_ids", "token_type_ids")
    return encode(embedded(ids, types, np.arange(len(ids)), w, model.config), w, model, switches)


def embedded(ids: Any, types: Any, positions: Any, w: Weights, config: Any) -> Array:
    types = np.zeros_like(ids) if types is None else types
    x = (
        w["embeddings.word_embeddings.weight"][ids]
        + w["embeddings.position_embeddings.weight"][positions]
        + w["embeddings.token_type_embeddings.weight"][types]
    )
    return layer_norm(x, w, "embeddings.LayerNorm", config.layer_norm_eps)


def encode(x: Array, w: Weights, model: Any, switches: Any) -> Run:
    states, maps = [x], []
    for layer in range(model.config.num_hidden_layers):
        prefix = f"encoder.layer.{layer}."
        own = {n.removeprefix(prefix): t for n, t in w.items() if n.startswith(prefix)}
        norm = partial(layer_norm, w=own, epsilon=model.config.layer_norm_eps)
        x = post_norm_block(
            x,
            (
                partial(attend, w=own, heads=model.config.num_attention_heads, maps=maps),
                partial(norm, name="attention.output.LayerNorm"),
            ),
            (
                partial(mlp, w=own, activation=model.config.hidden_act),
                partial(norm, name="output.LayerNorm"),
            ),
            switches,
        )
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def attend(x: Array, w: Weights, heads: int, maps: list[Array]) -> Array:
    q, k, v = (
        split_heads(linear(x, w, f"attention.self.{name}"), heads)
        for name in ("query", "key", "value")
    )
    context, p = attention(q, k, v, scale=q.shape[-1] ** -0.5)
    maps.append(p)
    return linear(context, w, "attention.output.dense")


def mlp(x: Array, w: Weights, activation: str) -> Array:
    hidden = ACTIVATIONS[activation](linear(x, w, "intermediate.dense"))
    return linear(hidden, w, "output.dense")
