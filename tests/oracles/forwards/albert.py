"""ALBERT: post-norm encoder whose few distinct blocks are used again and again.

`num_hidden_layers` rounds; round i runs the `inner_group_num` blocks of group int(i / (rounds / groups)),
and each run of a block is one entry of the states.
"""

from functools import partial
from typing import Any

import numpy as np

from .bert import embedded
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
    post_norm,
    post_norm_block,
    split_heads,
    weights,
)


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w, config = weights(model), model.config
    ids, types = only(inputs, "input_ids", "token_type_ids")
    x = embedded(ids, types, np.arange(len(ids)), w, config)
    x = linear(x, w, "encoder.embedding_hidden_mapping_in")
    states, maps = [x], []
    for i in range(config.num_hidden_layers):
        group = int(i / (config.num_hidden_layers / config.num_hidden_groups))
        for inner in range(config.inner_group_num):
            name = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
            x = block(x, w, name, config, switches, maps)
            states.append(x)
    return Run({"layers": states}, {"layers": maps})


def block(x: Array, w: Weights, name: str, config: Any, s: Any, maps: list[Array]) -> Array:
    norm = partial(layer_norm, w=w, epsilon=config.layer_norm_eps)
    attention_part = (
        partial(attend, w=w, name=f"{name}.attention", heads=config.num_attention_heads, maps=maps),
        partial(norm, name=f"{name}.attention.LayerNorm"),
    )
    mlp_norm = partial(norm, name=f"{name}.full_layer_layer_norm")
    activation = ACTIVATIONS[config.hidden_act]
    if s.as_published and not s.mlp:
        # The published surgery made the two matrices identities; the activation, the skip and the norm stayed.
        x = post_norm(x, *attention_part, s.skip, s.norms)
        return post_norm(x, activation, mlp_norm, skip=True, norms=s.norms)

    def mlp(y: Array) -> Array:
        return linear(activation(linear(y, w, f"{name}.ffn")), w, f"{name}.ffn_output")

    return post_norm_block(x, attention_part, (mlp, mlp_norm), s)


def attend(x: Array, w: Weights, name: str, heads: int, maps: list[Array]) -> Array:
    q, k, v = (
        split_heads(linear(x, w, f"{name}.{part}"), heads) for part in ("query", "key", "value")
    )
    context, p = attention(q, k, v, scale=q.shape[-1] ** -0.5)
    maps.append(p)
    return linear(context, w, f"{name}.dense")
