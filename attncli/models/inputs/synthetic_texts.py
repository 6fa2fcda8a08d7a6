"""Synthetic texts that reveal heads that copy: needles far back in random tokens, and Markov chains of a few tokens."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attncli.models.inputs.repeated_tokens import token_argument_names
from attncli.models.inputs.vocabulary_and_positions import max_positions, ordinary_ids

TEXTS = 3
"""Texts of each kind: their mean has a standard deviation, and costs few passes."""
NEEDLES, COPIED, LENGTH = 4, 6, 168
"""How many pieces are repeated, tokens of each, and of the whole text where the model has as many positions."""
LEAST = 2
"""Tokens of a piece."""
SYMBOLS, STEPS = 3, 96
"""The number of different tokens of a Markov chain, and its length."""
SHORTEST = 16
"""The shortest text: in shorter ones nothing is far back."""


class SyntheticText(NamedTuple):
    kwargs: dict[str, Tensor]
    """A batch of one."""
    ids: Tensor
    """[token]"""


Chosen = Callable[[Tensor, int, torch.Generator], Tensor | None]
"""Makes the text [token] from the model's tokens and its number of positions; None if these are too few."""


def make_synthetic_texts(body: PreTrainedModel, kind: str, seed: int) -> list[SyntheticText]:
    """Make texts of `needles` or `markov`; none if the model does not read tokens alone or has too few positions."""
    names = token_argument_names(body)
    if names is None:
        return []
    known = ordinary_ids(body)
    most = max_positions(body)
    found = []
    for text in range(TEXTS):
        generator = torch.Generator().manual_seed(TEXTS * seed + text)
        ids = MADE[kind](known, LENGTH if most is None else most, generator)
        if ids is None:
            return []
        found.append(SyntheticText(dict.fromkeys(names, ids[None].to(body.device)), ids))
    return found


def make_tokens_with_repeats(known: Tensor, most: int, generator: torch.Generator) -> Tensor | None:
    """Random tokens, all different, then some pieces of them again, in another order."""
    length = min(LENGTH, most, len(known) + LEAST * NEEDLES)
    copied = min(COPIED, max(LEAST, length // (7 * NEEDLES)))
    before = length - NEEDLES * copied
    if length < SHORTEST:
        return None
    hay = known[torch.randperm(len(known), generator=generator)[:before]]
    room = before // NEEDLES - copied  # each piece somewhere in its own quarter
    starts = [
        quarter * (before // NEEDLES) + int(torch.randint(max(1, room), (1,), generator=generator))
        for quarter in torch.randperm(NEEDLES, generator=generator).tolist()
    ]
    return torch.cat([hay, *(hay[start : start + copied] for start in starts)])


def make_markov_chain(known: Tensor, most: int, generator: torch.Generator) -> Tensor | None:
    """A chain over a few tokens whose transitions are drawn uniformly (Edelman et al. 2024)."""
    steps = min(STEPS, most)
    if len(known) < SYMBOLS or steps < SHORTEST:
        return None
    symbols = known[torch.randperm(len(known), generator=generator)[:SYMBOLS]]
    rates = torch.empty(SYMBOLS, SYMBOLS).exponential_(generator=generator)
    state = [int(torch.randint(SYMBOLS, (1,), generator=generator))]
    while len(state) < steps:
        state.append(int(torch.multinomial(rates[state[-1]], 1, generator=generator)))
    return symbols[torch.tensor(state)]


MADE: Mapping[str, Chosen] = {"needles": make_tokens_with_repeats, "markov": make_markov_chain}
