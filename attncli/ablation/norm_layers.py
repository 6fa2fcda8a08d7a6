"""Recognise norm modules and functions."""

from torch import nn

FUNCTIONS = frozenset({"layer_norm", "rms_norm", "group_norm", "batch_norm", "normalize"})
"""Norms that are called as functions, with the tensor first."""


def is_norm(module: nn.Module) -> bool:
    """Whether it is a module without submodules whose class is named a norm: LayerNorm, T5LayerNorm, LlamaRMSNorm."""
    return "norm" in type(module).__name__.lower() and not any(module.children())
