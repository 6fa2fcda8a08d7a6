"""Random tokens repeated twice, on which heads that look for earlier copies of a token show themselves."""

from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attncli.capture.model_structure.custom_modules import ForeignModule
from attncli.models.inputs.extra_inputs import is_reading_ids_alone
from attncli.models.inputs.vocabulary_and_positions import max_positions, ordinary_ids
from attncli.models.random.dummy_inputs import list_required_inputs

PERIOD = 24
"""Tokens before the repeat: enough pairs for a mean, and short enough to cost little."""
SHORTEST = 4
DRAWS = 8
"""Number of draws: what a head does on one draw it may not do on the next."""


class RepeatedTokens(NamedTuple):
    kwargs: dict[str, Tensor]
    """A batch of `DRAWS`."""
    period: int
    """Tokens before the repeat, all different."""

    def select_draw(self, draw: int) -> dict[str, Tensor]:
        """One draw as a batch of one."""
        return {name: ids[draw : draw + 1] for name, ids in self.kwargs.items()}


def make_repeated_tokens(body: PreTrainedModel, seed: int) -> RepeatedTokens | None:
    """Draw random tokens, each text repeated twice; None if the model does not read tokens alone or has too few positions."""
    names = token_argument_names(body)
    if names is None:
        return None
    most = max_positions(body)
    known = ordinary_ids(body)
    period = min(PERIOD, len(known), PERIOD if most is None else most // 2)
    if period < SHORTEST:
        return None
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randperm(len(known), generator=generator)[:period] for _ in range(DRAWS)]
    half = known[torch.stack(drawn)]
    ids = torch.cat([half, half], dim=1).to(body.device)
    return RepeatedTokens(dict.fromkeys(names, ids), period)


def token_argument_names(body: PreTrainedModel) -> set[str] | None:
    """Argument names of a model that reads tokens alone; None for any other."""
    if isinstance(body, ForeignModule) or not is_reading_ids_alone(body):
        return None
    return set(list_required_inputs(body))
