"""Shuffle a text's tokens, as a control: what a head's numbers are without the text's order."""

from dataclasses import replace

import torch

from attncli.models.inputs.extra_inputs import WORDS
from attncli.models.inputs.model_input import ModelInput

PLACES = "position_ids"
"""Positions are not shuffled, or nothing would have moved."""


def shuffle_tokens(text: ModelInput, seed: int) -> ModelInput | None:
    """Shuffle all but the first and last token, which may be special; None if the model reads no tokens."""
    ids = text.kwargs.get(WORDS)
    if ids is None or ids.dim() != 2:
        return None
    tokens = ids.shape[1]
    generator = torch.Generator().manual_seed(seed)
    inner = torch.randperm(max(0, tokens - 2), generator=generator) + 1
    order = torch.cat([torch.tensor([0]), inner, torch.tensor([tokens - 1])])[:tokens].to(
        ids.device
    )
    moved = dict(text.kwargs)
    for name, value in text.kwargs.items():
        if isinstance(value, torch.Tensor) and value.dim() == 2 and value.shape[1] == tokens:
            moved[name] = value if name == PLACES else value[:, order]
    return replace(text, name=f"{text.name}, shuffled", kwargs=moved)
