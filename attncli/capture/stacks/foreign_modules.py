"""A module of any origin, held as a model: it has no config, and what attends in it is found by watching it once."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from attncli.capture.stacks.probe_forward import ModuleCall, probe_forward


class ForeignModule(nn.Module):
    """Runs the module that it holds, on one text at a time."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.model = module
        self.attending: frozenset[nn.Module] = frozenset()
        """The modules in whose own forward an attention was seen, whatever they are called."""

    def look(self, inputs: Mapping[str, Any]) -> None:
        """Find out what attends."""
        self.attending = frozenset(
            map(find_attention_module, probe_forward(self, inputs).attention)
        )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)

    @property
    def dtype(self) -> torch.dtype:
        """Of its first weight, as transformers' models have it."""
        found = (each.dtype for each in self.model.parameters() if each.is_floating_point())
        return next(found, torch.float32)

    @property
    def device(self) -> torch.device:
        return next((each.device for each in self.model.parameters()), torch.device("cpu"))


def wrap_foreign_module(module: nn.Module) -> ForeignModule:
    """Called as the module's own class is, so that sentences name that."""
    name = type(module).__name__
    found: ForeignModule = type(name, (ForeignModule,), {})(module)
    return found


def find_attention_module(around: Sequence[ModuleCall]) -> nn.Module:
    """The module whose forward weighs the values: one of torch's for the softmax alone is a part of it."""
    modules = [call.module for call in around]
    softmax = [nn.Softmax, nn.Softmax2d, nn.LogSoftmax]
    return next(each for each in reversed(modules) if type(each) not in softmax)
