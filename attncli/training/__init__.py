"""A training run, watched: attention's health beside the loss.

callback        for transformers' Trainer
monitor         for loops of one's own; what it and the callback do at a step
decisions       what stops a training, and what is only said
history         the reports of a run, kept in a folder
scalars         the few numbers that a logger draws
rank_zero       what several processes say together
batch_capture   the batch of a step: its maps, seen as its own forward pass runs, or in one more pass beside it
head_growth     how fast the numbers of heads move from one look to the next: slopes with their errors, and when a limit is reached
packed_batches  what of a batch is text: padding is none, and several texts may be packed into one row
probe_runs      the same texts, looked at again and again between two steps of a training
step_reports    the numbers of one step of a training as a report, like that of any other model

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
