"""Llama: pre-norm causal decoder with RMSNorm, RoPE, grouped queries and a gated MLP. Mistral and Qwen2 share its blocks.

RoPE uses the model's float32 `inv_freq` buffer, with angles, cosines and sines in float64.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .common import (
    ACTIVATIONS,
    EVERYTHING,
    Array,
    Run,
    Weights,
    array,
    attention,
    causal,
    linear,
    only,
    pre_norm_block,
    rms_norm,
    rotated,
    split_heads,
    weights,
)


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    return decode(model, inputs, switches, window=lambda layer: None)


def decode(model: Any, inputs: Any, switches: Any, window: Callable[[int], int | None]) -> Run:
    """All layers; `window` says how many keys a layer sees, None for all."""
    w, config = weights(model), model.config
    (ids,) = only(inputs, "input_ids")
    x = w["embed_tokens.weight"][ids]
    rope = model.base_model.rotary_emb
    turn = partial(
        rotated, inverse_frequencies=array(rope.inv_freq), scaling=rope.attention_scaling
    )
    states, maps = [x], []
    for layer in range(config.num_hidden_layers):
        name = f"layers.{layer}"
        visible = causal(len(ids), window(layer))
        norm_1, norm_2 = (
            partial(rms_norm, gain=w[f"{name}.{part}.weight"], epsilon=config.rms_norm_eps)
            for part in ("input_layernorm", "post_attention_layernorm")
        )
        attend = partial(
            attended,
            w=w,
            name=f"{name}.self_attn",
            config=config,
            turn=turn,
            visible=visible,
            maps=maps,
        )
        mlp = partial(mlp_output, w=w, name=f"{name}.mlp", activation=config.hidden_act)
        x = pre_norm_block(x, [(norm_1, attend)], (norm_2, mlp), switches)
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def attended(
    x: Array, w: Weights, name: str, config: Any, turn: Any, visible: Any, maps: list[Array]
) -> Array:
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    q = turn(split_heads(linear(x, w, f"{name}.q_proj"), heads))
    k = turn(split_heads(linear(x, w, f"{name}.k_proj"), groups))
    v = split_heads(linear(x, w, f"{name}.v_proj"), groups)
    k, v = (np.repeat(part, heads // groups, axis=0) for part in (k, v))
    context, p = attention(q, k, v, scale=q.shape[-1] ** -0.5, visible=visible)
    maps.append(p)
    return linear(context, w, f"{name}.o_proj")


def mlp_output(x: Array, w: Weights, name: str, activation: str) -> Array:
    gate = ACTIVATIONS[activation](linear(x, w, f"{name}.gate_proj"))
    return linear(gate * linear(x, w, f"{name}.up_proj"), w, f"{name}.down_proj")
