"""Gemma 3, text: Llama's skeleton with norms before and after each branch, norms on queries and keys, two RoPE bases.

Norm gains are stored as offsets from 1. The embedding scale and RoPE's `inv_freq` are the model's float32 buffers;
angles, cosines and sines are in float64. The norms on queries and keys stay when block norms are off: the stream does
not pass through them. `config.attn_logit_softcapping` is not read: the model stores it and never uses it.
"""

from functools import partial
from typing import Any

import numpy as np

from .common import (
    ACTIVATIONS,
    EVERYTHING,
    Array,
    Layer,
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
    w, body = weights(model), model.base_model
    (ids,) = only(inputs, "input_ids")
    x = w["embed_tokens.weight"][ids] * array(body.embed_tokens.embed_scale)
    states, maps = [x], []
    for layer in range(body.config.num_hidden_layers):
        x = block(x, w, layer, body, switches, maps)
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def block(x: Array, w: Weights, layer: int, body: Any, s: Any, maps: list[Array]) -> Array:
    name = f"layers.{layer}"

    def norm(part: str) -> Layer:
        return partial(
            rms_norm, gain=1 + w[f"{name}.{part}.weight"], epsilon=body.config.rms_norm_eps
        )

    def ended(branch: Layer, part: str) -> Layer:
        """The branch with the norm that ends it."""
        return (lambda y: norm(part)(branch(y))) if s.norms else branch

    attend = partial(attended, w=w, layer=layer, body=body, maps=maps)
    mlp = partial(mlp_output, w=w, name=f"{name}.mlp", activation=body.config.hidden_activation)
    return pre_norm_block(
        x,
        [(norm("input_layernorm"), ended(attend, "post_attention_layernorm"))],
        (norm("pre_feedforward_layernorm"), ended(mlp, "post_feedforward_layernorm")),
        s,
    )


def attended(x: Array, w: Weights, layer: int, body: Any, maps: list[Array]) -> Array:
    config, name = body.config, f"layers.{layer}.self_attn"
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    kind = config.layer_types[layer]
    turn = partial(
        rotated,
        inverse_frequencies=array(getattr(body.rotary_emb, f"{kind}_inv_freq")),
        scaling=getattr(body.rotary_emb, f"{kind}_attention_scaling"),
    )
    q = split_heads(linear(x, w, f"{name}.q_proj"), heads)
    k = split_heads(linear(x, w, f"{name}.k_proj"), groups)
    v = split_heads(linear(x, w, f"{name}.v_proj"), groups)
    q = turn(rms_norm(q, 1 + w[f"{name}.q_norm.weight"], config.rms_norm_eps))
    k = turn(rms_norm(k, 1 + w[f"{name}.k_norm.weight"], config.rms_norm_eps))
    k, v = (np.repeat(part, heads // groups, axis=0) for part in (k, v))
    window = config.sliding_window if kind == "sliding_attention" else None
    scale = config.query_pre_attn_scalar**-0.5
    context, p = attention(q, k, v, scale=scale, visible=causal(len(x), window))
    maps.append(p)
    return linear(context, w, f"{name}.o_proj")


def mlp_output(x: Array, w: Weights, name: str, activation: str) -> Array:
    gate = ACTIVATIONS[activation](linear(x, w, f"{name}.gate_proj"))
    return linear(gate * linear(x, w, f"{name}.up_proj"), w, f"{name}.down_proj")
