"""What a model's forward needs beside a text's ids, made by the rules of random inputs; and whether it reads ids at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attncli.capture.reruns.float64 import precision_of
from attncli.capture.stacks.probe_forward import probe
from attncli.capture.verification import floats
from attncli.errors import UsageError, parameters
from attncli.models.forward_names import forward_of
from attncli.models.random.dummy_inputs import example_inputs, made, runs, wanted

WORDS = "input_ids"
OF_WORDS = frozenset({WORDS, "decoder_input_ids"})
SHORT = 12
"""Tokens of the input on which it is found out."""
LONG = 256
"""More tokens than any text of our own making has."""
TEXT_OPTIONS = ["text", "text_file", "token_ids"]


@dataclass(frozen=True, slots=True)
class Company:
    """Names of a forward's inputs."""

    reads_decoder_ids: bool
    every: tuple[str, ...] = ()
    """All, where ids alone do not suffice."""

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.every if name not in OF_WORDS)

    def made(self, body: PreTrainedModel, tokens: int, seed: int) -> dict[str, Any]:
        """The others, beside a text of so many tokens."""
        if not self.others:
            return {}
        found = made(body, self.every, tokens, seed, small=False)
        return {name: found[name] for name in self.others}


def company(body: PreTrainedModel) -> Company:
    """Of ids: what the forward reads with them, seen on a short input; refused where it reads none, or several a token."""
    taken = forward_of(body).parameters
    any_name = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    decoder = any_name or "decoder_input_ids" in taken
    names = wanted(body)
    if not names and any_name:  # a class of its own, which says nothing of what it reads
        return Company(decoder)
    if WORDS not in names:
        refuse_words(body, parameters(names, " and ") or "nothing that is known")
    short = example_inputs(body, SHORT)
    if not is_one_id_a_token(short):
        refuse_words(body, f"several codes for each token (`{WORDS}` of shape {list(short[WORDS].shape)})")  # fmt: skip
    alone = {name: value for name, value in short.items() if name in OF_WORDS}
    if len(alone) == len(short) or suffices(body, alone, short):
        return Company(decoder)
    refuse_unread_ids(body, short)
    return Company(decoder, tuple(short))


def suffices(body: PreTrainedModel, alone: Mapping[str, Any], short: Mapping[str, Any]) -> bool:
    """Whether the model runs on ids alone, and none of its parts is idle then that attends beside them.

    Where others would put the text's own part to rest, as speech does, the text is what was asked about.
    """
    if not runs(body, alone):
        return False
    own, every = attending(body, alone), attending(body, short)
    return own == every or not own.issubset(every)


def attending(body: PreTrainedModel, inputs: Mapping[str, Any]) -> set[tuple[str, ...]]:
    """Where attention happens, by the modules around it."""
    with precision_of(body):
        return {tuple(call.name for call in around) for around in probe(body, inputs).attention}


def refuse_unread_ids(body: PreTrainedModel, short: Mapping[str, Any]) -> None:
    """What it needs beside ids may take their place: then other ids change nothing."""
    moved = {**short, WORDS: short[WORDS].roll(1, dims=1)}
    with torch.no_grad(), precision_of(body):
        one, other = (floats(body(**each)) for each in (short, moved))
    if all(map(torch.equal, one, other)):
        others = [name for name in short if name not in OF_WORDS]
        refuse_words(body, parameters(others, " and "))


def refuse_words(body: PreTrainedModel, read: str) -> None:
    raise UsageError(
        f"{type(body).__name__} reads {read}, not text: leave the text options out.",
        about=TEXT_OPTIONS,
    )


def is_one_id_a_token(inputs: Mapping[str, Any]) -> bool:
    """Decoders of sound read one code of each codebook."""
    ids = inputs.get(WORDS)
    return isinstance(ids, Tensor) and ids.dim() == 2 and len(ids) == 1


def reads_ids_alone(body: PreTrainedModel) -> bool:
    """Whether texts of our own making can be read: one id a token, nothing beside them, and as many as we like."""
    names = wanted(body)
    if not OF_WORDS.issuperset(names) or WORDS not in names:
        return False
    long = made(body, names, LONG, 0, small=False)
    alike = all(ids.shape == (1, LONG) for ids in long.values())
    return alike and OF_WORDS.issuperset(example_inputs(body, SHORT))
