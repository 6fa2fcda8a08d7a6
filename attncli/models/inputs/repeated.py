"""Random tokens repeated twice: the text on which heads that look for earlier copies of a token give themselves away."""

from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attncli.models.inputs.beside_words import reads_ids_alone
from attncli.models.inputs.token_ranges import longest, usual_ids
from attncli.models.random.dummy_inputs import wanted
from attncli.watching.stacks.held_modules import HeldModule

PERIOD = 24
"""Tokens before the repeat: enough pairs for a mean, short enough to cost next to nothing beside a text."""
SHORTEST = 4


class Repeated(NamedTuple):
    kwargs: dict[str, Tensor]
    """A batch of one."""
    period: int
    """Tokens before the repeat, all different."""


def repeated_tokens(body: PreTrainedModel, seed: int) -> Repeated | None:
    """The same random tokens twice over; None where the model does not read tokens alone or has no place for them."""
    names = token_names(body)
    if names is None:
        return None
    most = longest(body)
    known = usual_ids(body)
    period = min(PERIOD, len(known), PERIOD if most is None else most // 2)
    if period < SHORTEST:
        return None
    generator = torch.Generator().manual_seed(seed)
    half = known[torch.randperm(len(known), generator=generator)[:period]]
    ids = torch.cat([half, half])[None].to(body.device)
    return Repeated(dict.fromkeys(names, ids), period)


def token_names(body: PreTrainedModel) -> set[str] | None:
    """The arguments of a model that reads tokens alone; None where it reads anything else, or nobody knows what."""
    if isinstance(body, HeldModule) or not reads_ids_alone(body):
        return None
    return set(wanted(body))
