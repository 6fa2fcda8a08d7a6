"""The same architecture with random weights: what a trained model is to be compared with."""

import torch
from transformers import PreTrainedModel

from attncli.models.casting import in_dtype
from attncli.models.loading.in_memory.eval_mode import at_rest
from attncli.models.quiet_libraries import quiet


def random_twin(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    """A model of the same class, config, dtype and device, drawn as its class draws its weights."""
    first = next(model.parameters())
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        twin: PreTrainedModel = type(model)._from_config(model.config)  # type: ignore[no-untyped-call]
    in_dtype(twin, first.dtype)
    return at_rest(twin, first.device)
