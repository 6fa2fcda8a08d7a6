"""Shuffle a text's tokens, as a control: what a head's numbers are without the text's order."""

from dataclasses import replace

import torch

from attncli.models.inputs.extra_inputs import WORDS
from attncli.models.inputs.texts import ModelInput

PLACES = "position_ids"
"""Positions are not shuffled, or nothing would have moved."""


def is_shuffled_argument(name: str, value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 2 and name != PLACES


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
    moved = {
        name: value[:, order]
        if is_shuffled_argument(name, value) and value.shape[1] == tokens
        else value
        for name, value in text.kwargs.items()
    }
    return replace(text, name=f"{text.name}, shuffled", kwargs=moved)
