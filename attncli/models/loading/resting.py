"""A model at rest between two steps of its training, and left as it was.

Nothing is moved or copied but buffers, which some models change as they run: weights, gradients, optimiser, mode,
hooks, configuration and random state are what they were, also where something inside has failed.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from attncli.models.loading.live import cuda_devices, modules_as_they_were, restore
from attncli.models.loading.load import KEPT
from attncli.models.loading.surroundings import uncompiled, without_autocast

Kept = dict[str, tuple[Tensor, int, Tensor]]
"""A buffer, how often it had been written to, and its numbers."""


@contextmanager
def resting(model: nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients, no autocast, no compiled code, no cache."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(cuda_devices(model)))
        stack.enter_context(modules_as_they_were(model))
        for module in model.modules():
            module.training = False
            buffers = {name: each for name, each in module._buffers.items() if each is not None}
            if buffers:
                kept = {name: (each, each._version, each.clone()) for name, each in buffers.items()}
                stack.callback(put_back, module, kept)
        stack.enter_context(keeping_nothing(model))
        stack.callback(in_parts_again, model)
        stack.enter_context(without_autocast())
        stack.enter_context(uncompiled())
        stack.enter_context(torch.no_grad())
        yield


@contextmanager
def keeping_nothing(model: nn.Module) -> Iterator[None]:
    """Configs that ask for nothing to be kept for the caller."""
    held = (getattr(module, "config", None) for module in model.modules())
    configs = {id(config): config for config in held if hasattr(config, "__dict__")}.values()
    before = [(config, dict(vars(config))) for config in configs]
    try:
        for config in configs:
            for name in KEPT:
                if getattr(config, name, False):
                    setattr(config, name, False)
        yield
    finally:
        for config, attributes in before:
            restore(config, attributes)


def put_back(module: nn.Module, kept: Kept) -> None:
    """The same tensors with the same numbers; rotary angles of long texts, say, are computed anew as they come."""
    for name, (tensor, version, numbers) in kept.items():
        if tensor._version != version:
            with torch.no_grad():
                tensor.copy_(numbers)
        module._buffers[name] = tensor


def in_parts_again(model: nn.Module) -> None:
    """A forward pass without a backward one leaves whole parameters behind (FSDP)."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
