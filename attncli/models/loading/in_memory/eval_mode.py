"""Evaluation mode: for good where the model was loaded here, or temporarily between two steps of its training.

In a training nothing is moved or copied but buffers, which some models change as they run: weights, gradients, optimiser,
mode, hooks, configuration and random state are what they were, also where something inside has failed.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedConfig, PreTrainedModel

from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.errors import InputError
from attncli.models.loading.isolate_global_state import disable_autocast, disable_compiler

KEPT = ("use_cache", "output_attentions", "output_hidden_states")
"""Options by which configs make a forward pass return caches, maps and states."""
ANGLES = "inv_freq"
"""The name of transformers' buffers of rotary frequencies."""


def set_eval_mode(model: PreTrainedModel, device: torch.device | None) -> PreTrainedModel:
    """Put the model in evaluation mode on its device, without gradients and cache."""
    nn.Module.eval(model).requires_grad_(False)
    disable_returned_caches(model)
    refuse_non_finite_rotary_angles(model)
    if model.dtype == torch.float64 and not isinstance(model, ForeignModule):
        model.set_experts_implementation("eager")  # the grouped product has no float64 kernel
    if device is not None and device.type != "cpu":
        nn.Module.to(model, device)
    return model


def disable_returned_caches(model: nn.Module) -> None:
    """Turn off the options of configs by which forward passes return caches, maps and states."""
    configs = (getattr(module, "config", None) for module in model.modules())
    for config in configs:
        for name in KEPT if isinstance(config, PreTrainedConfig) else ():
            if getattr(config, name, False):
                setattr(config, name, False)


def refuse_non_finite_rotary_angles(model: PreTrainedModel) -> None:
    """Refuse rotary frequencies that are not finite: they are computed from the config, and no loader checks them."""
    for name, tensor in model.named_buffers():
        known = name.endswith(ANGLES) and not tensor.is_meta
        if known and not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{type(model).__name__}: the rotary frequencies {name} are not finite: correct the rotary numbers of its "
                "config (rope_theta, and the factor of rope_parameters or rope_scaling)."
            )


@contextmanager
def switch_to_eval_mode_temporarily(model: nn.Module) -> Iterator[None]:
    """Within: evaluation mode, no gradients, no autocast, no compiled code, no cache."""
    from attncli.models.loading.in_memory.restore_state import restore_model_state

    with ExitStack() as stack:
        stack.enter_context(restore_model_state(model))
        for module in model.modules():
            module.training = False
        disable_returned_caches(model)
        stack.callback(reshard_fsdp_parameters, model)
        stack.enter_context(disable_autocast())
        stack.enter_context(disable_compiler())
        stack.enter_context(torch.no_grad())
        yield


def reshard_fsdp_parameters(model: nn.Module) -> None:
    """Shard parameters again (FSDP): a forward pass without a backward one leaves them whole."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
