"""A training run, watched: attention's health beside the loss.

callback    for transformers' Trainer
monitor     for loops of one's own; what it and the callback do at a step
of_tasks    the trainings that attn makes itself
decisions   what stops a training, and what is only said
history     the reports of a run, kept in a folder
scalars     the few numbers that a logger draws
one_answer  what several processes say together

    from attncli.training import AttnCallback, Monitor
"""

import importlib
from typing import Any

PUBLIC = {"AttnCallback": "attncli.training.callback", "Monitor": "attncli.training.monitor"}

__all__ = ["AttnCallback", "Monitor"]


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'attncli.training' has no attribute '{name}'")
