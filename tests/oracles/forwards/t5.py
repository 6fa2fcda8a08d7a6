"""T5: pre-norm encoder and decoder with RMSNorm, logits without scale, and a relative bias that all layers share.

The bias of a stack is stored in its first block. Cross attention has none, and reads the encoder's output after the
final norm. The logarithm of the distance buckets is taken in float64.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .common import (
    ACTIVATIONS,
    EVERYTHING,
    Array,
    Layer,
    Run,
    Weights,
    attention,
    causal,
    linear,
    only,
    pre_norm_block,
    rms_norm,
    split_heads,
    weights,
)


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w, config = weights(model), model.config
    source, target = only(inputs, "input_ids", "decoder_input_ids")
    maps: dict[str, list[Array]] = {"encoder": [], "decoder": [], "cross": []}
    encoder = stack(source, None, w, "encoder", config.num_layers, config, switches, maps)
    final_gain = w["encoder.final_layer_norm.weight"]
    memory = rms_norm(encoder[-1], final_gain, config.layer_norm_epsilon)
    decoder = stack(target, memory, w, "decoder", config.num_decoder_layers, config, switches, maps)
    return Run({"encoder": encoder, "decoder": decoder}, maps)


def stack(
    ids: Any,
    memory: Array | None,
    w: Weights,
    side: str,
    layers: int,
    config: Any,
    s: Any,
    maps: dict[str, list[Array]],
) -> list[Array]:
    """The states of the encoder, or with its output as `memory` those of the decoder."""
    table = w[f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
    bias = table[buckets(len(ids), config, bidirectional=memory is None)].transpose(2, 0, 1)
    visible = None if memory is None else causal(len(ids))
    x = w["shared.weight"][ids]
    states = [x]
    for layer in range(layers):
        block = f"{side}.block.{layer}.layer"
        attend = partial(attended, w=w, name=f"{block}.0.SelfAttention", heads=config.num_heads)
        attentions = [
            (
                norm(w, f"{block}.0", config),
                partial(attend, memory=None, bias=bias, visible=visible, maps=maps[side]),
            )
        ]
        if memory is not None:
            cross = partial(attend, name=f"{block}.1.EncDecAttention", maps=maps["cross"])
            attentions.append(
                (
                    norm(w, f"{block}.1", config),
                    partial(cross, memory=memory, bias=0.0, visible=None),
                )
            )
        last = f"{block}.{len(attentions)}"
        mlp = partial(mlp_output, w=w, name=f"{last}.DenseReluDense", config=config)
        x = pre_norm_block(x, attentions, (norm(w, last, config), mlp), s)
        states.append(x)
    return states


def norm(w: Weights, name: str, config: Any) -> Layer:
    gain = w[f"{name}.layer_norm.weight"]
    return partial(rms_norm, gain=gain, epsilon=config.layer_norm_epsilon)


def buckets(tokens: int, config: Any, bidirectional: bool) -> NDArray[np.int64]:
    """The bucket of each (query, key): one per distance while it is small, then logarithmic up to the largest."""
    ahead = np.arange(tokens) - np.arange(tokens)[:, None]
    count = config.relative_attention_num_buckets
    offset = np.zeros_like(ahead)
    if bidirectional:  # one half of the buckets for each direction
        count //= 2
        offset = np.where(ahead > 0, count, 0)
        distance = np.abs(ahead)
    else:
        distance = np.maximum(-ahead, 0)
    exact = count // 2
    span = np.log(config.relative_attention_max_distance / exact)
    growth = np.log(np.maximum(distance, exact) / exact) / span * (count - exact)
    coarse = np.minimum(exact + growth.astype(np.int64), count - 1)
    return offset + np.where(distance < exact, distance, coarse)


def attended(
    x: Array,
    w: Weights,
    name: str,
    heads: int,
    memory: Array | None,
    bias: Array | float,
    visible: Any,
    maps: list[Array],
) -> Array:
    source = x if memory is None else memory
    q = split_heads(linear(x, w, f"{name}.q"), heads)
    k, v = (split_heads(linear(source, w, f"{name}.{part}"), heads) for part in "kv")
    context, p = attention(q, k, v, scale=1.0, bias=bias, visible=visible)
    maps.append(p)
    return linear(context, w, f"{name}.o")


def mlp_output(x: Array, w: Weights, name: str, config: Any) -> Array:
    activation = ACTIVATIONS[config.dense_act_fn]
    if config.is_gated_act:
        hidden = activation(linear(x, w, f"{name}.wi_0")) * linear(x, w, f"{name}.wi_1")
    else:
        hidden = activation(linear(x, w, f"{name}.wi"))
    return linear(hidden, w, f"{name}.wo")
