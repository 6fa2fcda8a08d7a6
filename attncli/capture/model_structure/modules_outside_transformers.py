"""Wrap a module not from transformers as a model: it has no config, and one forward shows which parts attend."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from attncli.capture.model_structure.probe_forward import ModuleCall, ProbeResult, probe_forward
from attncli.forward_argument_types import Inputs, Output


class ForeignModule(nn.Module):
    """Runs the wrapped module on one text at a time."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.model = module
        self.attending: frozenset[nn.Module] = frozenset()
        """The modules in whose own forward an attention ran, whatever their names."""

    def find_attending_submodules(self, inputs: Inputs) -> None:
        """Run the module once to find which parts attend."""
        self.record_attending_submodules(probe_forward(self, inputs))

    def record_attending_submodules(self, seen: ProbeResult) -> None:
        """Keep which parts attended in a recorded forward."""
        self.attending = frozenset(map(find_module_computing_attention, seen.attention))

    def forward(self, *args: Any, **kwargs: Any) -> Output:
        return self.model(*args, **kwargs)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its first weight, as transformers' models define it."""
        found = (each.dtype for each in self.model.parameters() if each.is_floating_point())
        return next(found, torch.float32)

    @property
    def device(self) -> torch.device:
        return next((each.device for each in self.model.parameters()), torch.device("cpu"))


def wrap_custom_module(module: nn.Module) -> ForeignModule:
    """Wrap a module; the wrapper has the class name of the module, so that messages name that."""
    name = type(module).__name__
    found: ForeignModule = type(name, (ForeignModule,), {})(module)
    return found


def find_module_computing_attention(around: Sequence[ModuleCall]) -> nn.Module:
    """Find the module whose forward multiplies the values; a torch module for the softmax alone is a part of it."""
    modules = [call.module for call in around]
    softmax = [nn.Softmax, nn.Softmax2d, nn.LogSoftmax]
    return next(each for each in reversed(modules) if type(each) not in softmax)
