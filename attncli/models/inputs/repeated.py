"""Random tokens repeated twice: the text on which heads that look for earlier copies of a token give themselves away."""

from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attncli.models.inputs.token_ranges import longest, vocabulary
from attncli.models.random.dummy_inputs import wanted
from attncli.models.text_configs import text_config
from attncli.watching.stacks.held_modules import HeldModule

PERIOD = 24
"""Tokens before the repeat: enough pairs for a mean, short enough to cost next to nothing beside a text."""
SHORTEST = 4
WORDS = {"input_ids", "decoder_input_ids"}


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
    known = torch.tensor(sorted(set(range(vocabulary(body))) - special(body)))
    period = min(PERIOD, len(known), PERIOD if most is None else most // 2)
    if period < SHORTEST:
        return None
    generator = torch.Generator().manual_seed(seed)
    half = known[torch.randperm(len(known), generator=generator)[:period]]
    ids = torch.cat([half, half])[None].to(body.device)
    return Repeated(dict.fromkeys(names, ids), period)


def token_names(body: PreTrainedModel) -> set[str] | None:
    """The arguments of a model that reads tokens alone; None where it reads anything else, or nobody knows what."""
    names = None if isinstance(body, HeldModule) else set(wanted(body))
    return names if names is not None and names <= WORDS else None


def special(body: PreTrainedModel) -> set[int]:
    """Ids that the config gives a meaning of their own, such as the end of a text."""
    said = text_config(body.config).to_dict()
    return {
        value
        for name, value in said.items()
        if name.endswith("_token_id") and isinstance(value, int)
    }
