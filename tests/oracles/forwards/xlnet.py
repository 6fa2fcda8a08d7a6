"""XLNet: post-norm encoder with Transformer-XL's relative positions, segments by relation, and two streams.

The logit of (i, j) is ((q_i + b_w)·k_j + (q_i + b_r)·r_{i-j} + (q_i + b_s)·segment_{same or not}) / √d. The sinusoids of
the distances are computed in float64. With `target_mapping` a second stack, "query", runs beside the first: its tokens see
what `perm_mask` lets them, tokens of the first stack see themselves besides, and both read keys and values of the first.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .common import (
    ACTIVATIONS,
    EVERYTHING,
    Array,
    Run,
    Weights,
    layer_norm,
    linear,
    only,
    post_norm_block,
    softmax,
    weights,
)


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    w, config = weights(model), model.config
    if config.attn_type != "bi" or config.bi_data or config.clamp_len > 0:
        raise ValueError("the oracle knows the bidirectional model with unclamped distances only")
    ids, segments, hidden_from, targets = only(
        inputs, "input_ids", "token_type_ids", "perm_mask", "target_mapping"
    )
    tokens = len(ids)
    masked = np.zeros((tokens, tokens)) if hidden_from is None else (hidden_from > 0) * 1.0
    seen = {"layers": masked * (1 - np.eye(tokens)), "query": masked}
    x = {"layers": w["word_embedding.weight"][ids]}
    if targets is not None:
        x["query"] = np.repeat(w["mask_emb"][0], len(targets), axis=0)
    found = Run({name: [stream] for name, stream in x.items()}, {name: [] for name in x})
    for layer in range(config.n_layer):
        prefix = f"layer.{layer}."
        own = {n.removeprefix(prefix): t for n, t in w.items() if n.startswith(prefix)}
        content = x["layers"]  # both streams attend to the first stream's input
        for name in x:
            attend = partial(
                attended,
                content=content,
                w=own,
                masked=seen[name],
                segments=segments,
                mapping=targets if name == "query" else None,
                maps=found.maps[name],
            )
            x[name] = block(x[name], attend, own, config, switches)
            found.states[name].append(x[name])
    return found


def block(x: Array, attend: Any, w: Weights, config: Any, s: Any) -> Array:
    norm = partial(layer_norm, w=w, epsilon=config.layer_norm_eps)

    def mlp(y: Array) -> Array:
        hidden = ACTIVATIONS[config.ff_activation](linear(y, w, "ff.layer_1"))
        return linear(hidden, w, "ff.layer_2")

    return post_norm_block(
        x,
        (attend, partial(norm, name="rel_attn.layer_norm")),
        (mlp, partial(norm, name="ff.layer_norm")),
        s,
    )


def attended(
    x: Array,
    content: Array,
    w: Weights,
    masked: Array,
    segments: Any,
    mapping: Array | None,
    maps: list[Array],
) -> Array:
    """`mapping` [target, token] spreads the queries of the second stream over the tokens, and collects them again."""
    q = np.einsum("tf,fhd->thd", x, w["rel_attn.q"])
    k = np.einsum("tf,fhd->thd", content, w["rel_attn.k"])
    v = np.einsum("tf,fhd->thd", content, w["rel_attn.v"])
    if mapping is not None:
        q = np.einsum("mhd,mt->thd", q, mapping)
    p = softmax(logits(q, k, w, segments) - 1e30 * masked)
    maps.append(p)
    context = np.einsum("hij,jhd->ihd", p, v)
    if mapping is not None:
        context = np.einsum("thd,mt->mhd", context, mapping)
    return np.einsum("thd,fhd->tf", context, w["rel_attn.o"])


def logits(q: Array, k: Array, w: Weights, segments: Any) -> Array:
    """[head, query, key]."""
    tokens, width = np.arange(len(q)), len(w["rel_attn.r"])
    r = np.einsum("ijf,fhd->ijhd", sinusoids(tokens[:, None] - tokens, width), w["rel_attn.r"])
    total = np.einsum("ihd,jhd->hij", q + w["rel_attn.r_w_bias"], k)
    total += np.einsum("ihd,ijhd->hij", q + w["rel_attn.r_r_bias"], r)
    if segments is not None:
        other = (segments[:, None] != segments).astype(np.int64)
        embedded = w["rel_attn.seg_embed"][other]  # [query, key, head, width]
        total += np.einsum("ihd,ijhd->hij", q + w["rel_attn.r_s_bias"], embedded)
    return total / np.sqrt(q.shape[-1])


def sinusoids(distances: NDArray[np.int64], width: int) -> Array:
    """[…, feature]: all sines, then all cosines."""
    angles = distances[..., None] / 10000 ** (np.arange(0, width, 2) / width)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
