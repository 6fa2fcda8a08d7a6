"""Estimate the memory of a model and its run, before it is taken."""

from pathlib import Path
from typing import cast

import torch
from torch import nn
from transformers import PreTrainedConfig

from attncli.errors import format_count
from attncli.models.layer_sizes_from_config import list_head_counts
from attncli.models.model_classes import iter_nested_configs
from attncli.models.precision import format_dtype
from attncli.resource_limits import require_memory

ALIVE = 8
"""States as wide as the widest product that a block has alive at once: a GPT-2 of 124M parameters takes 374 MB for
4096 tokens, 7.4 times tokens × 3072 × 4 bytes; gated and leaner blocks take less."""
MAPS_ALIVE = 3
"""Logits, softmax and the copy in float32, where a layer's map is made at once."""


def require_memory_for_weights(
    folder: Path, blank: nn.Module, dtype: torch.dtype, in_place: bool, parts: int = 1
) -> None:
    """Refuse a model whose weights do not fit, or one of its parts; in place, the system pages them from the file."""
    if in_place:
        return
    numbers = sum(weight.numel() for weight in blank.parameters())
    require_memory(
        numbers * dtype.itemsize // parts,
        f"{folder} in {format_dtype(dtype)}",
        "choose a narrower `dtype`; in the file's own, on the CPU, the system pages the weights from the file",
    )


def require_memory_to_run(
    body: nn.Module,
    tokens: int,
    strip_memory: int,
    heads_at_once: int = 0,
    states_in_memory: int = 0,
    advice: str = "cut it with `tokens`",
) -> None:
    """Refuse a text that is too long; `heads_at_once` is set where attention cannot be made strip by strip.

    `states_in_memory`: states that stay in memory in float64 until the end; `advice`: by the command's options.
    """
    needed = estimate_run_memory(body, tokens, strip_memory, heads_at_once)
    if states_in_memory:
        needed += 8 * states_in_memory * tokens * find_hidden_state_width(body)
    require_memory(
        needed,
        f"a text of {format_count(tokens, 'token')}",
        advice,
    )


def estimate_run_memory(
    body: nn.Module, tokens: int, strip_memory: int, heads_at_once: int = 0
) -> int:
    """Estimate the bytes of a run, without the weights."""
    itemsize = max((weight.dtype.itemsize for weight in body.parameters()), default=4)
    states = ALIVE * tokens * find_longest_weight_matrix_side(body) * itemsize
    maps = MAPS_ALIVE * heads_at_once * tokens**2 * max(itemsize, 4)
    return states + strip_memory + maps


def find_max_head_count(body: nn.Module) -> int:
    """The largest number of heads of any layer, by the config and those nested in it."""
    configs = iter_nested_configs(cast("PreTrainedConfig", body.config))
    return max((heads for config in configs for heads in list_head_counts(config)), default=1)


def find_hidden_state_width(body: nn.Module) -> int:
    """The width of a hidden state, at most the model's largest width."""
    own = vars(getattr(body, "config", body)).get("hidden_size")
    return own if isinstance(own, int) else find_longest_weight_matrix_side(body)


def find_longest_weight_matrix_side(body: nn.Module) -> int:
    """The longest side of any weight matrix that is multiplied; embeddings are looked up."""
    sides = [
        max(weight.shape[:2])
        for module in body.modules()
        if not isinstance(module, nn.Embedding)
        for weight in module.parameters(recurse=False)
        if weight.ndim >= 2
    ]
    return max(sides, default=1)
