"""Monitor a training run: health of attention, logged with the loss.

callback                 for transformers' Trainer
monitor                  for custom loops; the work of a step, shared with the callback
stop_rules               conditions that stop a training or warn
training_history         the reports of a run, saved in a folder
scalars_for_loggers      the few numbers for a logger
rank_zero_communication  agree between the processes of one training
batch_capture            the batch of a step: its maps, captured in its own forward pass or in an extra one
metric_growth            growth of the heads' numbers over observations: slopes with errors, and when a limit is reached
packed_batches           the texts in a batch, without padding; several texts may be packed into one row
probe_text_runs          the same texts, observed repeatedly between two steps of a training
step_reports             the numbers of one step as a report, like that of any other model

    from attncli.training import AttnCallback, Monitor

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> from attncli.training import Monitor
    >>> config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=9, bos_token_id=0, eos_token_id=0)
    >>> monitor = Monitor(GPT2LMHeadModel(config), probe=[[1, 2, 3, 4]], metrics="entropy", every=1)
    >>> "attn/entropy/mean" in monitor.step()
    True
"""

import importlib
from typing import Any

PUBLIC = {"AttnCallback": "attncli.training.callback", "Monitor": "attncli.training.monitor"}

__all__ = ["AttnCallback", "Monitor"]


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(importlib.import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'attncli.training' has no attribute '{name}'")
