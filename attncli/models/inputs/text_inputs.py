"""Texts and token ids as a model's arguments: encoded, checked against its vocabulary and positions, with its extra inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attncli.errors import InputError
from attncli.models.inputs.input_options import RequestedInput
from attncli.models.inputs.inputs_besides_token_ids import (
    ExtraInputs,
    find_inputs_besides_token_ids,
    shift_decoder_ids_right,
)
from attncli.models.inputs.model_input import (
    WORDS,
    ModelInput,
    label_decoder_tokens,
    label_tokens_by_ids,
)
from attncli.models.inputs.token_id_lists import read_token_id_lists
from attncli.models.inputs.tokenizing import EncodedText, encode_text, load_tokenizer
from attncli.models.inputs.vocabulary_and_positions import (
    find_vocabulary_size,
    refuse_too_long_text,
)
from attncli.models.loading.loaded_model import LoadedModel

OWN_TEXTS = (("default text", "default_text.txt"), ("second text", "second_text.txt"))
"""The package's own texts, read if no option names an input, and their files."""


class EncodedTexts(NamedTuple):
    """Token ids within the model's vocabulary and positions."""

    options: RequestedInput
    texts: list[tuple[str, EncodedText]]


def make_text_inputs(checkpoint: LoadedModel, options: RequestedInput) -> list[ModelInput]:
    """Encode the texts, unless a check before the weights has done so, and add the model's extra inputs."""
    ahead = checkpoint.read_ahead
    known = (
        ahead
        if ahead is not None and ahead.options == options
        else encode_requested_texts(checkpoint, options)
    )
    reading = TextEncoder(
        checkpoint, find_inputs_besides_token_ids(checkpoint.model_without_head), options.seed
    )
    kind = "token ids" if options.token_ids else "text"
    return [make_text_input(reading, name, kind, encoded) for name, encoded in known.texts]


def encode_requested_texts(checkpoint: LoadedModel, options: RequestedInput) -> EncodedTexts:
    """Encode texts or ids, and refuse those that the model cannot read."""
    model = checkpoint.model
    if options.token_ids:
        lists = [
            (name, ids[: options.tokens]) for name, ids in read_token_id_lists(options.token_ids)
        ]
        found = [(name, EncodedText(ids, label_tokens_by_ids(ids), 0)) for name, ids in lists]
    else:
        tokenizer = load_tokenizer(checkpoint)
        where = checkpoint.folder or f"this {type(model).__name__}"
        found = [
            (name, encode_text(where, tokenizer, name, text, options.tokens))
            for name, text in collect_named_texts(options)
        ]
    for name, encoded in found:
        refuse_unknown_ids(model, name, encoded.ids)
        refuse_too_long_text(model, name, len(encoded.ids))
    return EncodedTexts(options, found)


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """What encodes texts for a model, and its extra inputs."""

    checkpoint: LoadedModel
    extra_inputs: ExtraInputs
    seed: int


def collect_named_texts(options: RequestedInput) -> list[tuple[str, str]]:
    """Collect texts of the command line, then those of the file, else the package's own."""
    found = [(f"text {n}", text) for n, text in enumerate(options.texts, start=1)]
    if options.text_file is not None:
        from attncli.models.inputs.text_files import read_texts_from_file

        parts = read_texts_from_file(options.text_file)
        found += [(f"{options.text_file} {n}", text) for n, text in enumerate(parts, start=1)]
    return found or read_bundled_texts(options.own_texts)


def read_bundled_texts(count: int) -> list[tuple[str, str]]:
    """Read the texts that ship with the package."""
    return [(name, read_bundled_file(file)) for name, file in OWN_TEXTS[:count]]


def read_default_text() -> str:
    return read_bundled_texts(1)[0][1]


def read_bundled_file(file: str) -> str:
    return (files("attncli.models.inputs") / file).read_text(encoding="utf-8")


def make_text_input(reading: TextEncoder, name: str, kind: str, encoded: EncodedText) -> ModelInput:
    """Make an input of token ids, and of the model's extra inputs."""
    model, extra = reading.checkpoint.model, reading.extra_inputs
    ids = torch.tensor([encoded.ids], dtype=torch.long)
    others = extra.make_inputs_besides_token_ids(
        reading.checkpoint.model_without_head, len(encoded.ids), reading.seed
    )
    kwargs = {WORDS: ids, **others}
    if model.config.is_encoder_decoder and extra.reads_decoder_ids:
        kwargs["decoder_input_ids"] = shift_decoder_ids_right(model, ids)
    placed = {
        key: value.to(model.device) if isinstance(value, Tensor) else value
        for key, value in kwargs.items()
    }
    return ModelInput(
        name,
        kind,
        placed,
        len(encoded.ids),
        tuple(encoded.labels),
        label_decoder_tokens(placed, encoded.labels),
        tuple(others),
    )


def refuse_unknown_ids(model: PreTrainedModel, name: str, ids: Sequence[int]) -> None:
    known = find_vocabulary_size(model)
    outside = [each for each in ids if each < 0 or (known is not None and each >= known)]
    if outside:
        least = "ids from 0 on" if known is None else f"0 … {known - 1}"
        raise InputError(
            f"{name} holds the token id {outside[0]}, the model knows {least}: the tokenizer or ids are another model's."
        )
