"""A model at rest: to stay so, where it was loaded here, or between two steps of its training, and left as it was.

In a training nothing is moved or copied but buffers, which some models change as they run: weights, gradients, optimiser,
mode, hooks, configuration and random state are what they were, also where something inside has failed.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedConfig, PreTrainedModel

from attncli.capture.stacks.foreign_modules import HeldModule
from attncli.errors import InputError
from attncli.models.loading.in_memory.restore_state import as_it_was
from attncli.models.loading.isolate_global_state import uncompiled, without_autocast

KEPT = ("use_cache", "output_attentions", "output_hidden_states")
"""What configs may ask a forward pass to keep for its caller."""
ANGLES = "inv_freq"
"""How transformers calls the buffers of rotary frequencies."""


def at_rest(model: PreTrainedModel, device: torch.device | None) -> PreTrainedModel:
    """Evaluation mode, no gradients, no cache, on its device."""
    nn.Module.eval(model).requires_grad_(False)
    keep_nothing(model)
    refuse_endless_angles(model)
    if model.dtype == torch.float64 and not isinstance(model, HeldModule):
        model.set_experts_implementation("eager")  # the grouped product has no float64 kernel
    if device is not None and device.type != "cpu":
        nn.Module.to(model, device)
    return model


def keep_nothing(model: nn.Module) -> None:
    """Of what transformers' configs ask to be kept for the caller."""
    configs = (getattr(module, "config", None) for module in model.modules())
    for config in configs:
        for name in KEPT if isinstance(config, PreTrainedConfig) else ():
            if getattr(config, name, False):
                setattr(config, name, False)


def refuse_endless_angles(model: PreTrainedModel) -> None:
    """Rotary frequencies are computed from the config's numbers, and nobody looks at them."""
    for name, tensor in model.named_buffers():
        known = name.endswith(ANGLES) and not tensor.is_meta
        if known and not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{type(model).__name__}: the rotary frequencies {name} are not finite: correct the rotary numbers of its "
                "config (rope_theta, and the factor of rope_parameters or rope_scaling)."
            )


@contextmanager
def resting(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients, no autocast, no compiled code, no cache."""
    with ExitStack() as stack:
        stack.enter_context(as_it_was(model))
        for module in model.modules():
            module.training = False
        keep_nothing(model)
        stack.callback(in_parts_again, model)
        stack.enter_context(without_autocast())
        stack.enter_context(uncompiled())
        stack.enter_context(torch.no_grad())
        yield


def in_parts_again(model: nn.Module) -> None:
    """A forward pass without a backward one leaves whole parameters behind (FSDP)."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
