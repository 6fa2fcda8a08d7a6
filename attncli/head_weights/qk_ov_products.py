"""The two D × D products of every head, W_Q W_K^T and W_V W_O, as their thin factors, read one head at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from attncli.errors import InputError
from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.head_projections import (
    Array,
    find_input_layer_norm,
    find_qk_norm_tensor,
    read_output_projection,
    read_projection,
)
from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.models.files.tensor_reader import TensorReader

EXTREME = 1e70
"""Size of weights from which squares of their products come near the end of float range."""
NORMALISED = "queries and keys are normalised (QK-norm), so the logits are no bilinear form"


@dataclass(frozen=True)
class HeadProducts:
    """W_QK and W_OV of one head, the gain of the norm in its branch folded in."""

    layer: int
    head: int
    qk: LowRankProduct | None
    """None under QK-norm, where logits are no bilinear form."""
    ov: LowRankProduct


def iter_head_products(
    tensors: TensorReader, config: HeadConfig, layers: Sequence[int], heads: Sequence[int]
) -> Iterator[HeadProducts]:
    """Iterate over heads; only one head is in memory at a time."""
    for layer in layers:
        place = config.layer_index_in_tensor_names(layer)
        gain = read_input_layer_norm_gain(tensors, config, layer)
        normalised = config.family.qk_norm or find_qk_norm_tensor(tensors, place) is not None
        for head in heads:
            key_head = head * config.key_head_count // config.head_count
            with np.errstate(over="ignore"):  # numbers outside float range are refused by name
                qk = (
                    None
                    if normalised
                    else build_query_key_product(tensors, config, place, head, key_head, gain)
                )
                value, _ = read_projection(tensors, config, place, "value", key_head)
                output = read_output_projection(tensors, config, place, head)
                ov = LowRankProduct(gain * value, output.T)
            for product in filter(None, (qk, ov)):
                refuse_extreme_weight_product(f"{tensors.folder}: head {layer}.{head}", product)
            yield HeadProducts(layer, head, qk, ov)


def refuse_extreme_weight_product(where: str, product: LowRankProduct) -> None:
    """Refuse extreme products: their squares must stay floats, or they would count as zero."""
    for factor in (product.left, product.right):
        largest = float(np.abs(factor).max(initial=0.0))
        if largest and not 1.0 / EXTREME < largest < EXTREME:
            raise InputError(
                f"{where} has weights of at most {largest:.3g}: products with them leave float range."
            )


def build_query_key_product(
    tensors: TensorReader, config: HeadConfig, place: int, head: int, key_head: int, gain: Array
) -> LowRankProduct:
    query, _ = read_projection(tensors, config, place, "query", head)
    key, _ = read_projection(tensors, config, place, "key", key_head)
    return LowRankProduct(gain * query, gain * key)


def read_input_layer_norm_gain(tensors: TensorReader, config: HeadConfig, layer: int) -> Array:
    """The gain of the norm in the branch, [feature, 1]; ones where the head reads the stream itself."""
    if not config.family.pre_norm:
        return np.ones((1, 1))
    norm = find_input_layer_norm(tensors, config, layer)
    if norm is None:
        raise InputError(
            f"{tensors.folder} has no gain of the norm before layer {layer}: its files and config disagree."
        )
    if norm.gain.shape != (config.hidden_size,):
        raise InputError(
            f"{tensors.folder}: the norm before layer {layer} has {norm.gain.size} gains for {config.hidden_size} features."
        )
    return norm.gain[:, None]
