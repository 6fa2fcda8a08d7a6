"""GPT-NeoX: causal decoder with RoPE on a part of each head; attention and MLP in parallel or in sequence.

In parallel both branches read the block's input and share one skip: x + attention(norm(x)) + mlp(norm(x)). The skip
switch decides over that one; the MLP's own skip has no meaning. RoPE uses the model's float32 `inv_freq` buffer,
with angles, cosines and sines in float64.
"""

from functools import partial
from typing import Any

from .common import (
    ACTIVATIONS,
    EVERYTHING,
    Array,
    Run,
    Weights,
    array,
    attention,
    causal,
    layer_norm,
    linear,
    only,
    pre_norm,
    pre_norm_block,
    rotated,
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
    x = w["embed_in.weight"][ids]
    norm = partial(layer_norm, w=w, epsilon=config.layer_norm_eps)
    rope = model.base_model.rotary_emb
    turn = partial(
        rotated, inverse_frequencies=array(rope.inv_freq), scaling=rope.attention_scaling
    )
    block = parallel_block if config.use_parallel_residual else sequential_block
    states, maps = [x], []
    for layer in range(config.num_hidden_layers):
        name = f"layers.{layer}"
        x = block(
            x,
            partial(norm, name=f"{name}.input_layernorm"),
            partial(attend, w=w, name=f"{name}.attention", config=config, turn=turn, maps=maps),
            partial(norm, name=f"{name}.post_attention_layernorm"),
            partial(mlp, w=w, name=f"{name}.mlp", config=config),
            switches,
        )
        states.append(x)
    return Run({"layers": states}, {"layers": maps})


def sequential_block(x: Array, norm_1: Any, attend: Any, norm_2: Any, mlp: Any, s: Any) -> Array:
    return pre_norm_block(x, [(norm_1, attend)], (norm_2, mlp), s)


def parallel_block(x: Array, norm_1: Any, attend: Any, norm_2: Any, mlp: Any, s: Any) -> Array:
    y = pre_norm(x, norm_1, attend, s.skip, s.norms)
    return y + pre_norm(x, norm_2, mlp, skip=False, norms=s.norms) if s.mlp else y


def attend(x: Array, w: Weights, name: str, config: Any, turn: Any, maps: list[Array]) -> Array:
    heads = config.num_attention_heads
    packed = split_heads(
        linear(x, w, f"{name}.query_key_value"), heads
    )  # q, k, v of one head side by side
    width = packed.shape[-1] // 3
    q, k, v = (packed[..., i * width : (i + 1) * width] for i in range(3))
    context, p = attention(turn(q), turn(k), v, scale=width**-0.5, visible=causal(len(x)))
    maps.append(p)
    return linear(context, w, f"{name}.dense")


def mlp(x: Array, w: Weights, name: str, config: Any) -> Array:
    hidden = ACTIVATIONS[config.hidden_act](linear(x, w, f"{name}.dense_h_to_4h"))
    return linear(hidden, w, f"{name}.dense_4h_to_h")
