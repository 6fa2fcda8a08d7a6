"""The constants of the theorem on pure attention for a layer's weights: β, H, and 4βH."""

import math
from dataclasses import dataclass

import numpy as np

from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.head_projections import (
    Array,
    find_qk_norm_tensor,
    read_output_projection,
    read_projection,
)
from attncli.maths.rank_collapse_bound import compute_log10_attention_bound_factor
from attncli.models.files.tensor_reader import TensorReader


@dataclass(frozen=True, slots=True)
class LayerTheoremConstant:
    """The constant of one layer, as the theorem has it."""

    beta: float
    """max over heads of ‖W_QK‖_1 ‖W_V W_O‖_{1,∞}"""
    log10_constant: float
    """log10 of 4βH times the scale of the logits, 1/√d mostly."""


def explain_missing_collapse_bound(config: HeadConfig, tensors: TensorReader) -> str:
    """Explain what the theorem does not cover; empty where it covers this attention."""
    family = config.family
    if family.causal:
        return "the theorem is about attention without a mask, and this one is causal"
    if family.rotary:
        return "the theorem is about attention on content alone, and this one turns queries and keys by position"
    if family.qk_norm or find_qk_norm_tensor(tensors, 0) is not None:
        return "the theorem is about logits that are bilinear, and queries and keys are normalised here"
    if family.logits:
        return f"the theorem is about scaled products of queries and keys: {family.logits}"
    positions = config.settings.get("position_embedding_type") or "absolute"
    if positions != "absolute":
        return (
            f"the theorem is about attention on content alone, and positions are '{positions}' here"
        )
    return ""


def compute_largest_logit_range(
    tensors: TensorReader, config: HeadConfig, layer: int, residual: Array
) -> float:
    """Largest |E_ij - E_ij'| over heads, queries i and keys j, j', E = R W_QK R^T/√d of the residual R [token, feature]."""
    place, found = config.layer_index_in_tensor_names(layer), []
    for head in range(config.head_count):
        w_q, _ = read_projection(tensors, config, place, "query", head)
        w_k, _ = read_projection(
            tensors, config, place, "key", head * config.key_head_count // config.head_count
        )
        found.append(float(np.ptp((residual @ w_q) @ (residual @ w_k).T, axis=1).max()))
    return max(found) * config.logit_scale(layer)


def compute_collapse_bound_constant(
    tensors: TensorReader, config: HeadConfig, layer: int
) -> LayerTheoremConstant:
    """Compute a layer's constant; biases change the common rows only, which the bound does not concern."""
    place, parts = config.layer_index_in_tensor_names(layer), []
    for head in range(config.head_count):
        key_head = head * config.key_head_count // config.head_count
        w_q, _ = read_projection(tensors, config, place, "query", head)
        w_k, _ = read_projection(tensors, config, place, "key", key_head)
        w_v, _ = read_projection(tensors, config, place, "value", key_head)
        w_o = read_output_projection(tensors, config, place, head)
        one = (w_q[None], w_k[None], w_v[None], w_o[None])
        parts.append(
            compute_log10_attention_bound_factor(*one)
            - math.log10(4.0 / math.sqrt(config.key_head_width))
        )
    log10_beta = max(parts)
    scale = 4.0 * config.head_count * config.logit_scale(layer)
    beta = float(np.power(10.0, log10_beta)) if log10_beta < 300.0 else math.inf
    return LayerTheoremConstant(beta, log10_beta + math.log10(scale))
