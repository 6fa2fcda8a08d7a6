"""Whisper: two convolutions and a pre-norm encoder of spectrograms, a pre-norm decoder of text with cross attention.

Cross attention reads the encoder's output after the final norm. `config.scale_embedding` is not read: the model stores
the scale and never uses it. All norms have PyTorch's epsilon, 1e-5.
"""

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
    gelu,
    layer_norm,
    linear,
    only,
    pre_norm_block,
    split_heads,
    weights,
)

norm = partial(layer_norm, epsilon=1e-5)


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w, config = weights(model), model.config
    features, target = only(inputs, "input_features", "decoder_input_ids")
    maps: dict[str, list[Array]] = {"encoder": [], "decoder": [], "cross": []}
    x = gelu(convolved(features.astype(np.float64), w, "encoder.conv1", stride=1))
    x = gelu(convolved(x, w, "encoder.conv2", stride=2)).T
    x = x + w["encoder.embed_positions.weight"]
    encoder = stack(x, None, w, "encoder", config.encoder_layers, config, switches, maps)
    memory = norm(encoder[-1], w, "encoder.layer_norm")
    y = w["decoder.embed_tokens.weight"][target]
    y = y + w["decoder.embed_positions.weight"][np.arange(len(target))]
    decoder = stack(y, memory, w, "decoder", config.decoder_layers, config, switches, maps)
    return Run({"encoder": encoder, "decoder": decoder}, maps)


def convolved(x: Array, w: Weights, name: str, stride: int) -> Array:
    """Kernel of 3 over time with one zero at each end; x and the result are [channel, time]."""
    padded = np.pad(x, ((0, 0), (1, 1)))
    kernel = w[f"{name}.weight"]  # [out, in, 3]
    steps = range(0, x.shape[1], stride)
    found = [np.einsum("it,oit->o", padded[:, t : t + 3], kernel) for t in steps]
    return np.stack(found, axis=1) + w[f"{name}.bias"][:, None]


def stack(
    x: Array,
    memory: Array | None,
    w: Weights,
    side: str,
    layers: int,
    config: Any,
    s: Any,
    maps: dict[str, list[Array]],
) -> list[Array]:
    """The states of the encoder, or with its output as `memory` those of the decoder."""
    heads = config.encoder_attention_heads if memory is None else config.decoder_attention_heads
    visible = None if memory is None else causal(len(x))
    states = [x]
    for layer in range(layers):
        name = f"{side}.layers.{layer}"
        attend = partial(attended, w=w, heads=heads)
        itself = partial(
            attend, name=f"{name}.self_attn", memory=None, visible=visible, maps=maps[side]
        )
        attentions = [(partial(norm, w=w, name=f"{name}.self_attn_layer_norm"), itself)]
        if memory is not None:
            cross = partial(attend, name=f"{name}.encoder_attn", memory=memory, maps=maps["cross"])
            attentions.append((partial(norm, w=w, name=f"{name}.encoder_attn_layer_norm"), cross))
        mlp = partial(mlp_output, w=w, name=name, activation=config.activation_function)
        x = pre_norm_block(
            x, attentions, (partial(norm, w=w, name=f"{name}.final_layer_norm"), mlp), s
        )
        states.append(x)
    return states


def attended(
    x: Array,
    w: Weights,
    name: str,
    heads: int,
    memory: Array | None,
    maps: list[Array],
    visible: Any = None,
) -> Array:
    source = x if memory is None else memory
    q = split_heads(linear(x, w, f"{name}.q_proj"), heads)
    k, v = (split_heads(linear(source, w, f"{name}.{part}_proj"), heads) for part in "kv")
    context, p = attention(q, k, v, scale=q.shape[-1] ** -0.5, visible=visible)
    maps.append(p)
    return linear(context, w, f"{name}.out_proj")


def mlp_output(x: Array, w: Weights, name: str, activation: str) -> Array:
    return linear(ACTIVATIONS[activation](linear(x, w, f"{name}.fc1")), w, f"{name}.fc2")
