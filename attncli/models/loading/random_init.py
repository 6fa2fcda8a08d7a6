"""Random-init models: the architecture of a trained model with random weights, as a control."""

import torch
from transformers import PreTrainedModel

from attncli.models.loading.in_memory.eval_mode import set_eval_mode
from attncli.models.precision import cast_model_to_dtype
from attncli.models.quiet_libraries import silence_libraries


def make_random_init_model(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    """Draw a model of the same class, config, dtype and device, by its class's own initialisation."""
    first = next(model.parameters())
    with silence_libraries(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random_init: PreTrainedModel = type(model)._from_config(model.config)  # type: ignore[no-untyped-call]
    cast_model_to_dtype(random_init, first.dtype)
    return set_eval_mode(random_init, first.device)
