"""Texts that reveal what heads do: random tokens repeated twice, needles far back in random tokens, Markov chains of a few
tokens; and the user's text with its tokens shuffled, as a control."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.models.inputs.model_input import OF_WORDS, WORDS, ModelInput
from attncli.models.inputs.vocabulary_and_positions import (
    find_max_positions,
    list_non_special_token_ids,
)
from attncli.models.random.dummy_inputs import (
    list_required_inputs,
    make_example_inputs,
    make_named_inputs,
)

PERIOD = 24
"""Tokens before the repeat: enough pairs for a mean, and short enough to cost little."""
SHORTEST_PERIOD = 4
DRAWS = 8
"""Number of draws: what a head does on one draw it may not do on the next."""
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
LONG = 256
"""More tokens than any of these texts has."""
PLACES = "position_ids"
"""Positions are not shuffled, or nothing would have moved."""


class RepeatedTokens(NamedTuple):
    kwargs: dict[str, Tensor]
    """A batch of `DRAWS`."""
    period: int
    """Tokens before the repeat, all different."""

    def select_text_as_batch(self, draw: int) -> dict[str, Tensor]:
        """One draw as a batch of one."""
        return {name: ids[draw : draw + 1] for name, ids in self.kwargs.items()}


def make_repeated_tokens(body: PreTrainedModel, seed: int) -> RepeatedTokens | None:
    """Draw random tokens, each text repeated twice; None if the model does not read tokens alone or has too few positions."""
    names = find_token_argument_names(body)
    if names is None:
        return None
    most = find_max_positions(body)
    known = list_non_special_token_ids(body)
    period = min(PERIOD, len(known), PERIOD if most is None else most // 2)
    if period < SHORTEST_PERIOD:
        return None
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randperm(len(known), generator=generator)[:period] for _ in range(DRAWS)]
    half = known[torch.stack(drawn)]
    ids = torch.cat([half, half], dim=1).to(body.device)
    return RepeatedTokens(dict.fromkeys(names, ids), period)


def find_token_argument_names(body: PreTrainedModel) -> set[str] | None:
    """Argument names of a model that reads one id per token and nothing else, at any length; None for any other."""
    if isinstance(body, ForeignModule):
        return None
    names = list_required_inputs(body)
    if not OF_WORDS.issuperset(names) or WORDS not in names:
        return None
    long = make_named_inputs(body, names, LONG, 0, small=False)
    alike = all(ids.shape == (1, LONG) for ids in long.values())
    return set(names) if alike and OF_WORDS.issuperset(make_example_inputs(body)) else None


class SyntheticText(NamedTuple):
    kwargs: dict[str, Tensor]
    """A batch of one."""
    ids: Tensor
    """[token]"""


Chosen = Callable[[Tensor, int, torch.Generator], Tensor | None]
"""Makes the text [token] from the model's tokens and its number of positions; None if these are too few."""


def make_synthetic_texts(body: PreTrainedModel, kind: str, seed: int) -> list[SyntheticText]:
    """Make texts of `needles` or `markov`; none if the model does not read tokens alone or has too few positions."""
    names = find_token_argument_names(body)
    if names is None:
        return []
    known = list_non_special_token_ids(body)
    most = find_max_positions(body)
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


def make_markov_chain_tokens(known: Tensor, most: int, generator: torch.Generator) -> Tensor | None:
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


MADE: Mapping[str, Chosen] = {
    "needles": make_tokens_with_repeats,
    "markov": make_markov_chain_tokens,
}


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
        if isinstance(value, Tensor) and value.dim() == 2 and value.shape[1] == tokens:
            moved[name] = value if name == PLACES else value[:, order]
    return replace(text, name=f"{text.name}, shuffled", kwargs=moved)
