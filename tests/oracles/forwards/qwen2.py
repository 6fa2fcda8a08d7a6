"""Qwen2: Llama with biases on queries, keys and values, and a sliding window in the layers that the config names."""

from typing import Any

from .common import EVERYTHING, Array, Run
from .llama import decode


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    def window(layer: int) -> int | None:
        sliding = model.config.layer_types[layer] == "sliding_attention"
        return model.config.sliding_window if sliding else None

    return decode(model, inputs, switches, window)
