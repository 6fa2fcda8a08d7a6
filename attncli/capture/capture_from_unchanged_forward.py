"""Observe attention in a forward pass that runs unchanged, gradients included: maps are computed in addition.

The model's own function of the attention interface computes the output from its own arguments. The same arguments are
then passed on, detached, as those of the model's eager attention.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attncli.capture.attention_function_registry import (
    EAGER,
    find_registered_attention_function,
    iter_module_configs,
    swap_attention_functions,
)
from attncli.capture.softmax_attention.attention_interface import (
    EagerCall,
    find_unpatched_eager_attention,
    promote_half_to_float32,
)
from attncli.capture.softmax_attention.rowwise_masks import PerMask
from attncli.forward_argument_types import Function, Kwargs, Output

SDPA = "sdpa"

AttentionObserver = Callable[[EagerCall], None]
"""Called after each attention, without gradients."""


def list_attention_implementations(model: nn.Module) -> set[str]:
    """Names of the functions that compute the model's attention."""
    found = (getattr(config, "_attn_implementation", None) for config in iter_module_configs(model))
    return {str(name or EAGER) for name in found}


def observe_attention(
    model: nn.Module, observer: AttentionObserver
) -> AbstractContextManager[None]:
    """Within, observe every attention on the interface after it was computed.

    Functions are wrapped, not replaced: output and gradients must come from the function that the model uses.
    """
    masks = PerMask()
    names = list_attention_implementations(model) & {SDPA, EAGER}
    return swap_attention_functions(
        {
            name: wrap_attention_function(
                name, find_registered_attention_function(name), observer, masks
            )
            for name in names
        }
    )


def wrap_attention_function(
    name: str, usual: Function | None, observer: AttentionObserver, masks: PerMask
) -> Function:
    """Wrap a function of the interface: the observer is called after it."""

    def attend_and_observe(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        *args: Any,
        **how: Any,
    ) -> Output:
        function = usual or find_unpatched_eager_attention(module)
        result = function(module, query, key, value, mask, *args, **how)
        device = query.device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            q, k, v = (promote_half_to_float32(side.detach()) for side in (query, key, value))
            shown = (
                convert_sdpa_mask_to_eager(module, query, mask, how, masks)
                if name == SDPA
                else mask
            )
            quiet = {name: promote_half_to_float32(each) for name, each in how.items()} | {
                "dropout": 0.0
            }
            observer(EagerCall(module, q, k, v, promote_half_to_float32(shown), quiet))
        return result

    return attend_and_observe


def convert_sdpa_mask_to_eager(
    module: nn.Module, query: Tensor, mask: Tensor | None, how: Kwargs, masks: PerMask
) -> Tensor | None:
    """Convert sdpa's mask to eager's: additive, with causality included."""
    least = torch.finfo(torch.float32).min
    if mask is not None:
        zeros = partial(torch.zeros, mask.shape, device=mask.device)
        is_additive = mask.dtype != torch.bool
        return (
            mask
            if is_additive
            else masks.get_cached_or_compute_for_mask(
                mask, lambda: zeros().masked_fill_(~mask, least)
            )
        )
    is_causal = how.get("is_causal")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    length = query.shape[2]
    if not causal or length < 2:
        return None
    square = partial(torch.full, (1, 1, length, length), least, device=query.device)
    return masks.get_cached_or_compute_for_mask(
        None, lambda: square().triu_(1), length, query.device
    )
