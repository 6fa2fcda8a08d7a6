"""GPT-Neo: pre-norm causal decoder; logits without scale; layers see everything before or the last `window_size`."""

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
    (ids,) = only(inputs, "input_ids")
    x = w["wte.weight"][ids] + w["wpe.weight"][np.arange(len(ids))]
    norm = partial(layer_norm, w=w, epsilon=config.layer_norm_epsilon)
    states, maps = [x], []
    for layer in range(config.num_layers):
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


def attended(x: Array, w: Weights, layer: int, config: Any, maps: list[Array]) -> Array:
    name = f"h.{layer}.attn.attention"
    q, k, v = (split_heads(linear(x, w, f"{name}.{p}_proj"), config.num_heads) for p in "qkv")
    window = config.window_size if config.attention_layers[layer] == "local" else None
    context, p = attention(q, k, v, scale=1.0, visible=causal(len(x), window))
    maps.append(p)
    return linear(context, w, f"{name}.out_proj")


def mlp_output(x: Array, w: Weights, name: str, config: Any) -> Array:
    hidden = ACTIVATIONS[config.activation_function](linear(x, w, f"{name}.c_fc"))
    return linear(hidden, w, f"{name}.c_proj")
