"""Cut one head's part of its layer's projections out of its family's tensors."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attncli.errors import InputError
from attncli.head_weights.head_configs import HeadConfig
from attncli.head_weights.model_families import HeadFamily
from attncli.models.files.tensor_reader import TensorReader

Array = NDArray[np.float64]
Part = Literal["query", "key", "value"]

PARTS: tuple[Part, ...] = ("query", "key", "value")
"""The order in a fused projection."""
QK_NORMS = ("q_norm", "k_norm", "q_layernorm", "k_layernorm", "query_layernorm", "key_layernorm")
"""Names of norms on queries or keys; they may come with any family's later versions."""

NORM_NAMES = (("weight", "bias"), ("gamma", "beta"))
"""The second pair is in the files of the first BERTs, and is renamed when a model is loaded."""


@dataclass(frozen=True, slots=True)
class InputNorm:
    """The norm whose output the head reads: gain · standardised token + bias."""

    gain: Array
    bias: Array
    centred: bool
    """LayerNorm; False: RMSNorm, which leaves the mean."""


def find_projection_weight_name(tensors: TensorReader, template: str, place: int) -> str:
    """The full name of a projection's weight."""
    expected = f"{template.format(l=place)}.weight"
    name = tensors.name(expected)
    if name is None:
        raise InputError(
            f"{tensors.folder} has no tensor {expected}: its files and config disagree."
        )
    return name


def find_qk_norm_tensor(tensors: TensorReader, place: int) -> str | None:
    """The tensor of a norm on queries or keys, if the layer has one."""
    for name in tensors.places:
        if f".{place}." in name and any(f".{norm}." in name for norm in QK_NORMS):
            return name
    return None


def read_projection(
    tensors: TensorReader, config: HeadConfig, place: int, part: Part, head: int
) -> tuple[Array, Array]:
    """Weights [hidden, d] and biases [d] of one head's queries, keys or values; keys' and values' heads are fewer if grouped."""
    family, d = config.family, config.key_head_width
    name = find_projection_weight_name(tensors, find_weight_name_template(family, part), place)
    outputs = d * sum(
        count_heads_of_projection(config, each) for each in (PARTS if not family.key else (part,))
    )
    transposed = family.layout == "conv1d"
    expected = (config.hidden_size, outputs) if transposed else (outputs, config.hidden_size)
    require_tensor_shape(tensors, name, expected)
    first = d * count_preceding_heads_in_projection(config, part, head)
    rows = slice(first, first + d)
    bias = f"{name.removesuffix('.weight')}.bias"
    b = read_vector_of_size(tensors, bias, outputs)[rows] if bias in tensors.places else np.zeros(d)
    if transposed:
        return np.ascontiguousarray(tensors.read_tensor_columns(name, rows)), b
    return np.ascontiguousarray(tensors.read_tensor_rows(name, rows).T), b


def read_output_projection(
    tensors: TensorReader, config: HeadConfig, place: int, head: int
) -> Array:
    """Weights [d, hidden] that map one head's context back to the stream."""
    d, inputs = config.key_head_width, config.head_count * config.key_head_width
    name = find_projection_weight_name(tensors, config.family.output, place)
    columns = slice(head * d, (head + 1) * d)
    transposed = config.family.layout == "conv1d"
    expected = (inputs, config.hidden_size) if transposed else (config.hidden_size, inputs)
    require_tensor_shape(tensors, name, expected)
    if transposed:
        return tensors.read_tensor_rows(name, columns)
    return np.ascontiguousarray(tensors.read_tensor_columns(name, columns).T)


def read_vector_of_size(tensors: TensorReader, name: str, size: int) -> Array:
    require_tensor_shape(tensors, name, (size,))
    return tensors.read_tensor_rows(name, slice(None))


def require_tensor_shape(tensors: TensorReader, name: str, expected: tuple[int, ...]) -> None:
    if tensors.shape(name) != expected:
        raise InputError(
            f"{tensors.folder}: {name} has shape {tensors.shape(name)}, the config says {expected}."
        )


def find_weight_name_template(family: HeadFamily, part: Part) -> str:
    fused = not family.key
    return (
        family.query
        if fused
        else {"query": family.query, "key": family.key, "value": family.value}[part]
    )


def count_heads_of_projection(config: HeadConfig, part: Part) -> int:
    return config.head_count if part == "query" else config.key_head_count


def count_preceding_heads_in_projection(config: HeadConfig, part: Part, head: int) -> int:
    """How many heads' outputs come before this head's in the projection."""
    if config.family.key:
        return head
    if config.family.layout == "interleaved":
        return len(PARTS) * head + PARTS.index(part)
    return head + sum(
        count_heads_of_projection(config, each) for each in PARTS[: PARTS.index(part)]
    )


def find_input_layer_norm(
    tensors: TensorReader, config: HeadConfig, layer: int
) -> InputNorm | None:
    """The norm that feeds this layer's projections; None if it is none, or has no gain in the file."""
    family = config.family
    template = family.first_norm if layer == 0 and family.first_norm else family.norm
    before = config.layer_index_in_tensor_names(layer - 1) if layer else 0
    path = template.format(l=config.layer_index_in_tensor_names(layer), p=before)
    for weight_name, bias_name in NORM_NAMES if template else ():
        name = tensors.name(f"{path}.{weight_name}")
        if name is None:
            continue
        gain = read_vector_of_size(tensors, name, config.hidden_size) + (
            1.0 if family.unit_offset else 0.0
        )
        bias = f"{name.removesuffix(weight_name)}{bias_name}"
        b = (
            read_vector_of_size(tensors, bias, len(gain))
            if bias in tensors.places
            else np.zeros(len(gain))
        )
        return InputNorm(gain, b, centred=not family.rms)
    return None
