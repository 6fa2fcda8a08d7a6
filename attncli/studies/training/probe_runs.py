"""The same texts, looked at again and again between two steps of a training.

Everything that costs time is done once: texts are tokenized, blocks found and the capture is proved. A look is then
one forward pass.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attncli.errors import UsageError, counted
from attncli.models.inputs.beside_words import WORDS, company
from attncli.models.inputs.padding import without_padding
from attncli.models.inputs.texts import ModelInput, Reading, inputs_of, words
from attncli.models.inputs.token_ranges import longest
from attncli.models.inputs.tokenizing import Encoded, shown
from attncli.models.inputs.wanted_input import WantedInput
from attncli.models.loading.body import body_of
from attncli.models.loading.load import Checkpoint
from attncli.models.loading.precision import dtype_name
from attncli.models.loading.resting import resting
from attncli.models.loading.surroundings import in_turn
from attncli.models.loading.unwrapped import Unwrapped
from attncli.models.quiet import quiet
from attncli.models.random.dummy_inputs import example_inputs
from attncli.studies.heads.head_metrics import Metrics
from attncli.studies.heads.model_heads import HeadSubject
from attncli.studies.heads.passes.head_runs import Seen, Wanted, look
from attncli.studies.heads.passes.uniform_null import UniformNull
from attncli.studies.model_runs import own_precision
from attncli.watching import prove
from attncli.watching.other_mixers.left_out import refuse_left_out
from attncli.watching.stacks.blocks import find_stacks

SHORT = 12
"""Tokens of the input on which the capture is proved."""
LONGEST = 128
"""Tokens of a probe's text, if no other length is asked for: longer ones cost more than they show."""

Probe = str | Sequence[str] | Sequence[Sequence[int]] | Tensor | Mapping[str, Tensor] | None
"""What is looked at: texts, token ids, or a model's own keyword arguments; None is the text that ships with attn."""


@dataclass(frozen=True)
class ProbeRuns:
    """A model in training and the texts on which it is looked at."""

    trained: Unwrapped
    subject: HeadSubject
    texts: tuple[ModelInput, ...]
    metrics: Metrics
    null: UniformNull
    off_interface: bool
    """Whether some of its attention is not on transformers' attention interface."""
    settles: bool
    """Whether it takes other parts for short texts in its first pass (BigBird), which must be over before it is watched."""

    def look(self) -> list[Seen]:
        """What the model shows now."""
        with in_turn(), resting(self.trained.model):
            return [self.seen(text.kwargs, text.name) for text in self.texts]

    def seen(self, kwargs: Mapping[str, Any], name: str) -> Seen:
        """One forward pass of a model at rest."""
        wanted = Wanted(self.metrics.heads, self.metrics.states)
        body, stacks = self.subject.body, self.subject.stacks
        with quiet():
            if self.settles:
                body(**kwargs)
            return look(body, stacks, kwargs, wanted, self.null, name, unheard, proved=self.subject.shapes)  # fmt: skip


def unheard(share: float) -> None:
    """A look is too short for a bar."""


def probe_runs(
    trained: Unwrapped, probe: Probe, tokenizer: Any, metrics: Metrics, tokens: int | None
) -> ProbeRuns:
    """Made ready: the capture is proved on a short input, as for every other question."""
    own = trained.of_transformers
    most = LONGEST if own is None else min(LONGEST, longest(own) or LONGEST)
    with in_turn():
        texts = texts_of(trained, probe, tokenizer, tokens or most)
        subject, off, settles = proved(trained, texts, bool(metrics.states))
    return ProbeRuns(trained, subject, tuple(texts), metrics, UniformNull(), off, settles)


def proved(
    trained: Unwrapped, texts: Sequence[ModelInput], with_states: bool
) -> tuple[HeadSubject, bool, bool]:
    """The model's blocks and attention, whether some is off the interface, and whether the model settles in a first pass.

    A module of the caller's own is proved on the first text itself.
    """
    own, body = trained.of_transformers, cast(PreTrainedModel, trained.body)
    with resting(trained.model), own_precision(body):
        short = texts[0].kwargs if own is None else example_inputs(body_of(own), SHORT)
        before = list(map(id, body.modules()))
        proof = prove(body, short)
        refuse_left_out(proof.left_out)
        follows = own is not None or with_states
        stacks = find_stacks(body, short) if follows else ()
        subject = HeadSubject(body, stacks, proof.shapes)
        return subject, bool(proof.whole_maps), before != list(map(id, body.modules()))


def texts_of(trained: Unwrapped, probe: Probe, tokenizer: Any, tokens: int) -> list[ModelInput]:
    """The probe as the model reads it, on its device."""
    model = trained.of_transformers
    if isinstance(probe, Mapping):
        return [given(trained.model, probe)]
    if model is None:
        raise UsageError(
            f"`probe` must be a mapping of the arguments of {type(trained.model).__name__}, as "
            '{"input_ids": ids}: what the module reads is not known.'
        )
    checkpoint = Checkpoint(model, {}, None, tokenizer=tokenizer)
    if probe is not None and not isinstance(probe, str) and len(probe) == 0:
        raise UsageError("`probe` holds no texts: give texts, or token ids as [text, token].")
    if probe is None or isinstance(probe, str) or is_texts(probe):
        said = () if probe is None else (probe,) if isinstance(probe, str) else tuple(probe)
        if said and tokenizer is None:
            raise UsageError("texts need a tokenizer: give `tokenizer`, or token ids as the probe.")
        with resting(model):
            return inputs_of(checkpoint, WantedInput(texts=cast(Any, said), tokens=tokens))
    lists = probe.tolist() if isinstance(probe, Tensor) else [list(each) for each in probe]
    if not lists or not all(lists) or not isinstance(lists[0], list):
        raise UsageError("`probe` holds no texts: give texts, or token ids as [text, token].")
    with resting(model):
        reading = Reading(checkpoint, company(checkpoint.body), 0)
    return [
        words(reading, f"probe {n}", "token ids", Encoded(ids[:tokens], shown(ids[:tokens]), 0))
        for n, ids in enumerate(lists, start=1)
    ]


def is_texts(probe: Any) -> bool:
    return not isinstance(probe, Tensor) and all(isinstance(each, str) for each in probe)


def given(model: nn.Module, kwargs: Mapping[str, Tensor]) -> ModelInput:
    """Arguments as they are, a batch of one; padding is no text."""
    device = next((each.device for each in model.parameters()), torch.device("cpu"))
    placed = {name: each.to(device) for name, each in kwargs.items()}
    several = [name for name, each in placed.items() if each.dim() and len(each) != 1]
    if several:
        raise UsageError(f"`probe` must hold a batch of one, and {several[0]} has {counted(len(placed[several[0]]), 'item')}.")  # fmt: skip
    if isinstance(model, PreTrainedModel):
        placed = without_padding(model, placed, "`probe`")
    main = placed.get(WORDS, next(iter(placed.values())))
    return ModelInput("probe", "arguments", placed, main.shape[1] if main.dim() > 1 else 1)


def identity_of(trained: Unwrapped) -> dict[str, Any]:
    """For the report; the weights are not hashed, which would cost more than a look."""
    model = trained.model
    config = getattr(model, "config", None)
    return {
        "kind": "live",
        "name": getattr(model, "name_or_path", "") or type(model).__name__,
        "model_type": getattr(config, "model_type", None),
        "class": type(model).__name__,
        "parameters": sum(each.numel() for each in model.parameters()),
        "dtype": dtype_name(next(model.parameters()).dtype),
        "device": str(next(model.parameters()).device),
    }


def not_finite(model: nn.Module) -> str:
    """The first parameter that has lost its numbers, in words; empty where all are finite."""
    for name, parameter in model.named_parameters():
        own = getattr(
            parameter, "_local_tensor", parameter
        ).detach()  # of a parameter in parts, this process's
        bad = int((~torch.isfinite(own)).sum())
        if bad:
            return f"{name} holds {bad} of {own.numel()} numbers that are not finite"
    return ""
