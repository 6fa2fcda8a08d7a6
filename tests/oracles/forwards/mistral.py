"""Mistral: Llama whose every layer sees the last `sliding_window` tokens only, itself included."""

from typing import Any

from .common import EVERYTHING, Array, Run
from .llama import decode


def forward(model: Any, inputs: Any, switches: Any) -> dict[str, list[Array]]:
    return run(model, inputs, switches).states


def attention_maps(model: Any, inputs: Any) -> dict[str, list[Array]]:
    return run(model, inputs, EVERYTHING).maps


def run(model: Any, inputs: Any, switches: Any) -> Run:
    return decode(model, inputs, switches, window=lambda layer: model.config.sliding_window)
