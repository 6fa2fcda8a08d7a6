"""What a model and its run take of the machine's memory, said before it is taken."""

from pathlib import Path
from typing import cast

import torch
from torch import nn
from transformers import PreTrainedConfig

from attncli.errors import counted
from attncli.limits import require_memory
from attncli.models.layer_configs import heads_of_layers
from attncli.models.loading.precision import dtype_name
from attncli.models.model_classes import configs_of

ALIVE = 8
"""States as wide as the widest product that a block has alive at once: a GPT-2 of 124M parameters takes 374 MB for
4096 tokens, 7.4 times tokens × 3072 × 4 bytes; gated and leaner blocks take less."""
MAPS_ALIVE = 3
"""Logits, softmax and the copy in float32, where a layer's map is made at once."""


def require_room_for_weights(
    folder: Path, blank: nn.Module, dtype: torch.dtype, in_place: bool, parts: int = 1
) -> None:
    """Refuse a model whose weights do not fit, or one of its parts; in place, the system pages them from the file."""
    if in_place:
        return
    numbers = sum(weight.numel() for weight in blank.parameters())
    require_memory(
        numbers * dtype.itemsize // parts,
        f"{folder} in {dtype_name(dtype)}",
        "choose a narrower `dtype`; in the file's own, on the CPU, the system pages the weights from the file",
    )


def require_room_to_run(
    body: nn.Module,
    tokens: int,
    strip_memory: int,
    heads_at_once: int = 0,
    kept: int = 0,
    advice: str = "cut it with `tokens`",
) -> None:
    """Refuse a text that is too long; `heads_at_once` is set where attention cannot be made strip by strip.

    `kept`: states that are held in float64 until the end; `advice`: by what the question calls it.
    """
    require_memory(
        room_to_run(body, tokens, strip_memory, heads_at_once) + 8 * kept * tokens * width(body),
        f"a text of {counted(tokens, 'token')}",
        advice,
    )


def room_to_run(body: nn.Module, tokens: int, strip_memory: int, heads_at_once: int = 0) -> int:
    """Bytes beside the weights."""
    itemsize = max((weight.dtype.itemsize for weight in body.parameters()), default=4)
    states = ALIVE * tokens * widest(body) * itemsize
    maps = MAPS_ALIVE * heads_at_once * tokens**2 * max(itemsize, 4)
    return states + strip_memory + maps


def most_heads(body: nn.Module) -> int:
    """Of any of its layers, as its config and those nested in it say."""
    configs = configs_of(cast("PreTrainedConfig", body.config))
    return max((heads for config in configs for heads in heads_of_layers(config)), default=1)


def width(body: nn.Module) -> int:
    """Of a state; at most as wide as anything."""
    own = vars(getattr(body, "config", body)).get("hidden_size")
    return own if isinstance(own, int) else widest(body)


def widest(body: nn.Module) -> int:
    """The longest side of any product's matrix; tables of words are looked up, not multiplied."""
    sides = [
        max(weight.shape[:2])
        for module in body.modules()
        if not isinstance(module, nn.Embedding)
        for weight in module.parameters(recurse=False)
        if weight.ndim >= 2
    ]
    return max(sides, default=1)
