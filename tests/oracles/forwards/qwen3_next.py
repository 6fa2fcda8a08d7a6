"""Qwen3-Next: gated delta nets, every fourth layer a gated softmax attention; experts with a shared one, or a gated MLP.

The delta rule is the recurrence itself, one token after the other; the library solves it in chunks. A delta net is a token
mixer as attention is: the attention's skip is its own. Norms in it, on queries and keys and before the gate, stay when
the block's norms are off. Norm gains are stored as offsets from 1, but not the one before the gate.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

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
    softmax,
    split_heads,
    weights,
)

SMALL = 1e-6
"""In the length of queries and keys of a delta net."""


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w, body = weights(model), model.base_model
    (ids,) = only(inputs, "input_ids")
    x = w["embed_tokens.weight"][ids]
    states, maps = [x], []
    for layer in range(body.config.num_hidden_layers):
        x = block(x, w, layer, body, switches, maps)
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def block(x: Array, w: Weights, layer: int, body: Any, s: Any, maps: list[Array]) -> Array:
    config, name = body.config, f"layers.{layer}"

    def norm(part: str) -> Layer:
        return partial(rms_norm, gain=1 + w[f"{name}.{part}.weight"], epsilon=config.rms_norm_eps)

    attends = config.layer_types[layer] == "full_attention"
    mixer: Layer = (
        partial(attended, w=w, name=f"{name}.self_attn", body=body, maps=maps)
        if attends
        else partial(delta_net, w=w, name=f"{name}.linear_attn", config=config)
    )
    sparse = layer not in config.mlp_only_layers
    mlp = partial(experts if sparse else gated_mlp, w=w, name=f"{name}.mlp", config=config)
    return pre_norm_block(
        x, [(norm("input_layernorm"), mixer)], (norm("post_attention_layernorm"), mlp), s
    )


def attended(x: Array, w: Weights, name: str, body: Any, maps: list[Array]) -> Array:
    """Every head's queries come with its gates behind them."""
    config = body.config
    heads, groups, epsilon = (
        config.num_attention_heads,
        config.num_key_value_heads,
        config.rms_norm_eps,
    )
    turn = partial(
        rotated,
        inverse_frequencies=array(body.rotary_emb.inv_freq),
        scaling=body.rotary_emb.attention_scaling,
    )
    q, gate = np.split(split_heads(linear(x, w, f"{name}.q_proj"), heads), 2, axis=-1)
    k = split_heads(linear(x, w, f"{name}.k_proj"), groups)
    v = split_heads(linear(x, w, f"{name}.v_proj"), groups)
    q = turn(rms_norm(q, 1 + w[f"{name}.q_norm.weight"], epsilon))
    k = turn(rms_norm(k, 1 + w[f"{name}.k_norm.weight"], epsilon))
    k, v = (np.repeat(part, heads // groups, axis=0) for part in (k, v))
    context, p = attention(q, k, v, scale=q.shape[-1] ** -0.5, visible=causal(len(x)))
    maps.append(p)
    gates = gate.transpose(1, 0, 2).reshape(len(x), -1)
    return linear(context * expit(gates), w, f"{name}.o_proj")


def delta_net(x: Array, w: Weights, name: str, config: Any) -> Array:
    """S ← e^g S; S ← S + k (β (v - S^T k))^T; y = S^T q/√d, for every value head."""
    groups, heads = config.linear_num_key_heads, config.linear_num_value_heads
    width, depth = config.linear_key_head_dim, config.linear_value_head_dim
    each = heads // groups
    of_group = linear(x, w, f"{name}.in_proj_qkvz").reshape(len(x), groups, -1)
    q, k, v, z = np.split(of_group, np.cumsum([width, width, each * depth]), axis=-1)
    b, a = np.split(linear(x, w, f"{name}.in_proj_ba").reshape(len(x), groups, -1), 2, axis=-1)
    together = np.concatenate([part.reshape(len(x), -1) for part in (q, k, v)], axis=-1)
    together = ACTIVATIONS[config.hidden_act](convolved(together, w[f"{name}.conv1d.weight"]))
    q, k, v = np.split(together, np.cumsum([groups * width] * 2), axis=-1)
    q, k = (unit(part.reshape(len(x), groups, width)).repeat(each, axis=1) for part in (q, k))
    beta = expit(b.reshape(len(x), heads))
    softplus = np.logaddexp(0.0, a.reshape(len(x), heads) + w[f"{name}.dt_bias"])
    decay = np.exp(-np.exp(w[f"{name}.A_log"]) * softplus)
    y = delta_rule(q / np.sqrt(width), k, v.reshape(len(x), heads, depth), beta, decay)
    y = rms_norm(y, w[f"{name}.norm.weight"], config.rms_norm_eps)
    y = y * ACTIVATIONS["silu"](z.reshape(len(x), heads, depth))
    return linear(y.reshape(len(x), -1), w, f"{name}.out_proj")


def delta_rule(q: Array, k: Array, v: Array, beta: Array, decay: Array) -> Array:
    """[token, head, width] of queries and keys, [token, head, depth] of values, [token, head] of the rest."""
    state = np.zeros((q.shape[1], q.shape[2], v.shape[2]))
    outputs = np.zeros_like(v)
    for token in range(len(q)):
        state = state * decay[token][:, None, None]
        known = np.einsum("hwd,hw->hd", state, k[token])
        change = beta[token][:, None] * (v[token] - known)
        state = state + k[token][:, :, None] * change[:, None, :]
        outputs[token] = np.einsum("hwd,hw->hd", state, q[token])
    return outputs


def convolved(x: Array, kernel: Array) -> Array:
    """Every channel with its own few tokens before it: [token, channel] with [channel, 1, reach]."""
    reach = kernel.shape[-1]
    padded = np.concatenate([np.zeros((reach - 1, x.shape[1])), x])
    return np.stack([(padded[t : t + reach] * kernel[:, 0].T).sum(axis=0) for t in range(len(x))])


def unit(x: Array) -> Array:
    return x / np.sqrt((x**2).sum(axis=-1, keepdims=True) + SMALL)


def gated_mlp(x: Array, w: Weights, name: str, config: Any) -> Array:
    gate = ACTIVATIONS[config.hidden_act](linear(x, w, f"{name}.gate_proj"))
    return linear(gate * linear(x, w, f"{name}.up_proj"), w, f"{name}.down_proj")


def experts(x: Array, w: Weights, name: str, config: Any) -> Array:
    """For each token its few likeliest experts, by their shares among them; and the shared one by its own gate."""
    shares = softmax(x @ w[f"{name}.gate.weight"].T)
    shared = expit(linear(x, w, f"{name}.shared_expert_gate"))
    y = shared * gated_mlp(x, w, f"{name}.shared_expert", config)
    for token, share in enumerate(shares):
        chosen = np.argsort(-share)[: config.num_experts_per_tok]
        for expert in chosen:
            both = w[f"{name}.experts.gate_up_proj"][expert] @ x[token]
            gate, up = np.split(both, 2)
            inner = ACTIVATIONS[config.hidden_act](gate) * up
            weight = share[expert] / share[chosen].sum()
            y[token] += weight * (w[f"{name}.experts.down_proj"][expert] @ inner)
    return y
