"""Prepare a model's inputs: texts, token ids or random tokens, each as a batch of one that is never padded.

There is no attention mask: in a batch of one without padding it would be all ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attncli.capture.input_token_counts import count_positions
from attncli.errors import InputError, UsageError
from attncli.forward_types import Kwargs
from attncli.models.inputs.extra_inputs import (
    TEXT_OPTIONS,
    WORDS,
    ExtraInputs,
    find_extra_inputs,
    shift_ids_right,
)
from attncli.models.inputs.input_options import RequestedInput, refuse_impossible_input
from attncli.models.inputs.model_input import ModelInput
from attncli.models.inputs.token_id_lists import read_id_lists
from attncli.models.inputs.tokenizing import (
    EncodedText,
    encode_text,
    label_tokens_by_ids,
    load_tokenizer,
)
from attncli.models.inputs.vocabulary_and_positions import (
    max_positions,
    refuse_too_long_text,
    vocabulary_size,
)
from attncli.models.loading.loaded_model import Ahead, LoadedModel
from attncli.models.random.dummy_inputs import make_example_inputs

OWN_TEXTS = (("default text", "default_text.txt"), ("second text", "second_text.txt"))
"""The package's own texts, read if no option names an input, and their files."""
DEFAULT_LENGTH = 128
"""Tokens of a random text, if no length is requested and the model has as many positions."""


def make_inputs(checkpoint: LoadedModel, options: RequestedInput) -> list[ModelInput]:
    """Make every input that the options name, in their order."""
    refuse_impossible_input(options)
    if checkpoint.given is not None:
        from attncli.models.inputs.user_inputs import make_user_inputs

        return make_user_inputs(checkpoint, options)
    has_texts = are_texts_requested(options)
    if checkpoint.body.main_input_name != WORDS:
        refuse_texts_for_media_model(checkpoint, options)
        return make_random_inputs(checkpoint, options, options.random_tokens)
    if options.random_tokens is not None or (not checkpoint.reads_texts and not has_texts):
        return make_random_inputs(checkpoint, options, options.random_tokens)
    ahead = checkpoint.read_ahead
    known = (
        ahead
        if ahead is not None and ahead.options == options
        else encode_texts(checkpoint, options)
    )
    reading = TextEncoder(checkpoint, find_extra_inputs(checkpoint.body), options.seed)
    kind = "token ids" if options.token_ids else "text"
    return [make_text_input(reading, name, kind, encoded) for name, encoded in known.texts]


def are_texts_requested(options: RequestedInput) -> bool:
    return bool(options.texts or options.text_file is not None or options.token_ids)


def refuse_texts_for_media_model(checkpoint: LoadedModel, options: RequestedInput) -> None:
    """Refuse texts for a model that reads images or sounds."""
    model = checkpoint.model
    if are_texts_requested(options):
        raise UsageError(
            f"{type(model).__name__} reads {model.main_input_name}, not text: leave the text options out.",
            about=TEXT_OPTIONS,
        )


class EncodedTexts(NamedTuple):
    """Token ids within the model's vocabulary and positions."""

    options: RequestedInput
    texts: list[tuple[str, EncodedText]]


def make_check_before_weights(options: RequestedInput) -> Ahead:
    """Make a check of config and tokenizer that runs before weights are read; it keeps the texts, as stdin is read once."""

    def check_texts(checkpoint: LoadedModel) -> EncodedTexts | None:
        if checkpoint.body.main_input_name != WORDS:
            refuse_texts_for_media_model(checkpoint, options)
            return None
        if options.random_tokens is not None:
            choose_random_length(checkpoint.model, options, options.random_tokens)
            return None
        return encode_texts(checkpoint, options)

    return check_texts


def encode_texts(checkpoint: LoadedModel, options: RequestedInput) -> EncodedTexts:
    """Encode texts or ids, and refuse those that the model cannot read."""
    model = checkpoint.model
    if options.token_ids:
        lists = [(name, ids[: options.tokens]) for name, ids in read_id_lists(options.token_ids)]
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
    company: ExtraInputs
    seed: int


def collect_named_texts(options: RequestedInput) -> list[tuple[str, str]]:
    """Collect texts of the command line, then those of the file, else the package's own."""
    found = [(f"text {n}", text) for n, text in enumerate(options.texts, start=1)]
    if options.text_file is not None:
        from attncli.models.inputs.text_files import read_text_file

        parts = read_text_file(options.text_file)
        found += [(f"{options.text_file} {n}", text) for n, text in enumerate(parts, start=1)]
    return found or read_bundled_texts(options.own_texts)


def read_bundled_texts(count: int) -> list[tuple[str, str]]:
    """Read the texts that ship with the package."""
    return [(name, read_bundled_file(file)) for name, file in OWN_TEXTS[:count]]


def default_text() -> str:
    return read_bundled_texts(1)[0][1]


def read_bundled_file(file: str) -> str:
    return (files("attncli.models.inputs") / file).read_text(encoding="utf-8")


def make_text_input(reading: TextEncoder, name: str, kind: str, encoded: EncodedText) -> ModelInput:
    """Make an input of token ids, and of the model's extra inputs."""
    model, extra = reading.checkpoint.model, reading.company
    ids = torch.tensor([encoded.ids], dtype=torch.long)
    others = extra.make_inputs(reading.checkpoint.body, len(encoded.ids), reading.seed)
    kwargs = {WORDS: ids, **others}
    if model.config.is_encoder_decoder and extra.reads_decoder_ids:
        kwargs["decoder_input_ids"] = shift_ids_right(model, ids)
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
        decoder_labels(placed, encoded.labels),
        tuple(others),
    )


def refuse_unknown_ids(model: Any, name: str, ids: Sequence[int]) -> None:
    known = vocabulary_size(model)
    outside = [each for each in ids if each < 0 or (known is not None and each >= known)]
    if outside:
        least = "ids from 0 on" if known is None else f"0 … {known - 1}"
        raise InputError(
            f"{name} holds the token id {outside[0]}, the model knows {least}: the tokenizer or ids are another model's."
        )


def decoder_labels(kwargs: Kwargs, labels: Sequence[str]) -> tuple[str, ...]:
    """The decoder's labels: the encoder's, by id; start tokens are labelled by id, and sounds not at all."""
    moved, ids = kwargs.get("decoder_input_ids"), kwargs.get(WORDS)
    if moved is None or ids is None or moved.dim() > 2:
        return ()
    known = dict(zip(ids[0].tolist(), labels, strict=True))
    return tuple(known.get(each, str(each)) for each in moved[0].tolist())


def make_random_inputs(
    checkpoint: LoadedModel, options: RequestedInput, length: int | None
) -> list[ModelInput]:
    """Make random tokens, images or sounds, as the model reads; each sample from its own seed."""
    length = choose_random_length(checkpoint.model, options, length)
    main = checkpoint.model.main_input_name
    kind = "random tokens" if main == WORDS else f"random {main}"
    return [
        make_random_input(checkpoint, f"{kind}, seed {seed}", kind, length, seed)
        for seed in range(options.seed, options.seed + options.samples)
    ]


def choose_random_length(model: Any, options: RequestedInput, length: int | None) -> int:
    """The requested length, if the model has so many positions."""
    lengths = [each for each in (length, options.tokens) if each is not None]
    length = min(lengths or [DEFAULT_LENGTH, max_positions(model) or DEFAULT_LENGTH])
    refuse_too_long_text(model, "`random_tokens`", length)
    return length


def make_random_input(
    checkpoint: LoadedModel, name: str, kind: str, length: int, seed: int
) -> ModelInput:
    body = checkpoint.body
    made = make_example_inputs(body, length, seed)
    placed = {
        key: value.to(checkpoint.model.device) if isinstance(value, Tensor) else value
        for key, value in made.items()
    }
    ids = made.get(WORDS)
    if ids is None:
        return ModelInput(name, kind, placed, count_positions(body, placed) or length)
    labels = label_tokens_by_ids(ids[0].tolist())
    return ModelInput(
        name, kind, placed, len(labels), tuple(labels), decoder_labels(placed, labels)
    )
