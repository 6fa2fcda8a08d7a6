"""Gemma 4, text: Gemma 3's skeleton, then a third branch in which an embedding of the layer's own is let through by the stream.

    X ← X + N(W_up (act(W_down X) ⊙ e_l)),   X ← s_l X

with e_l of each token made once of its embedding. The third branch is an MLP as the second is: both go off together, each
with its own skip. Full layers have wider heads and, as their values, the keys before norm and rotation. Norm gains are
stored as they are. The scale of embeddings and RoPE's `inv_freq` are the model's float32 buffers. Layers that take the keys
and values of others are not in here.
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
    pre_norm,
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
    own = embeddings_of_layers(x, ids, w, body)
    states, maps = [x], []
    for layer in range(body.config.num_hidden_layers):
        x = block(x, own[:, layer], w, layer, body, switches, maps)
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def embeddings_of_layers(x: Array, ids: Any, w: Weights, body: Any) -> Array:
    """[token, layer, feature]: half looked up, half projected from the embedding."""
    layers, width = body.config.num_hidden_layers, body.config.hidden_size_per_layer_input
    projected = linear(x, w, "per_layer_model_projection") * body.config.hidden_size**-0.5
    projected = rms_norm(
        projected.reshape(len(x), layers, width),
        w["per_layer_projection_norm.weight"],
        body.config.rms_norm_eps,
    )
    scale = array(body.embed_tokens_per_layer.embed_scale)
    looked_up = w["embed_tokens_per_layer.weight"][ids].reshape(len(x), layers, width) * scale
    return (projected + looked_up) * 2**-0.5


def block(x: Array, own: Array, w: Weights, layer: int, body: Any, s: Any, maps: Any) -> Array:
    config, name = body.config, f"layers.{layer}"
    activation = ACTIVATIONS[config.hidden_activation]

    def norm(part: str) -> Layer:
        return partial(rms_norm, gain=w[f"{name}.{part}.weight"], epsilon=config.rms_norm_eps)

    def ended(branch: Layer, part: str) -> Layer:
        """The branch with the norm that ends it."""
        return (lambda y: norm(part)(branch(y))) if s.norms else branch

    def let_through(y: Array) -> Array:
        gate = activation(linear(y, w, f"{name}.per_layer_input_gate"))
        return linear(gate * own, w, f"{name}.per_layer_projection")

    attend = ended(
        partial(attended, w=w, layer=layer, body=body, maps=maps), "post_attention_layernorm"
    )
    x = pre_norm(x, norm("input_layernorm"), attend, s.skip, s.norms)
    if s.mlp:
        mlp = ended(partial(mlp_output, w=w, name=f"{name}.mlp", activation=activation), "post_feedforward_layernorm")  # fmt: skip
        x = pre_norm(x, norm("pre_feedforward_layernorm"), mlp, s.mlp_skip, s.norms)
        third = ended(let_through, "post_per_layer_input_norm")
        x = pre_norm(x, lambda y: y, third, s.mlp_skip, s.norms)
    return x * w[f"{name}.layer_scalar"]


def attended(x: Array, w: Weights, layer: int, body: Any, maps: list[Array]) -> Array:
    config, name = body.config, f"layers.{layer}.self_attn"
    kind, epsilon = config.layer_types[layer], config.rms_norm_eps
    full = kind == "full_attention"
    turn = partial(
        rotated,
        inverse_frequencies=array(getattr(body.rotary_emb, f"{kind}_inv_freq")),
        scaling=getattr(body.rotary_emb, f"{kind}_attention_scaling"),
    )
    width = len(w[f"{name}.q_norm.weight"])
    q = split_heads(linear(x, w, f"{name}.q_proj"), config.num_attention_heads)
    k = split_heads(linear(x, w, f"{name}.k_proj"), w[f"{name}.k_proj.weight"].shape[0] // width)
    values = f"{name}.k_proj" if full and config.attention_k_eq_v else f"{name}.v_proj"
    v = split_heads(linear(x, w, values), len(k))
    q = turn(rms_norm(q, w[f"{name}.q_norm.weight"], epsilon))
    k = turn(rms_norm(k, w[f"{name}.k_norm.weight"], epsilon))
    v = rms_norm(v, np.ones(width), epsilon)
    k, v = (np.repeat(part, len(q) // len(part), axis=0) for part in (k, v))
    window = None if full else config.sliding_window
    context, p = attention(q, k, v, scale=1.0, visible=causal(len(x), window))
    maps.append(p)
    return linear(context, w, f"{name}.o_proj")


def mlp_output(x: Array, w: Weights, name: str, activation: Layer) -> Array:
    gate = activation(linear(x, w, f"{name}.gate_proj"))
    return linear(gate * linear(x, w, f"{name}.up_proj"), w, f"{name}.down_proj")
