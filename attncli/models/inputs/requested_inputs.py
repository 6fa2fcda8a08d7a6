"""Prepare a model's inputs: texts, token ids or random tokens, each as a batch of one that is never padded.

There is no attention mask: in a batch of one without padding it would be all ones.
"""

from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from attncli.errors import UsageError
from attncli.models.inputs.input_options import (
    TEXT_OPTIONS,
    RequestedInput,
    refuse_impossible_input_options,
)
from attncli.models.inputs.model_input import (
    WORDS,
    ModelInput,
    label_decoder_tokens,
    label_tokens_by_ids,
)
from attncli.models.inputs.vocabulary_and_positions import find_max_positions, refuse_too_long_text
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.random.dummy_inputs import make_example_inputs

DEFAULT_LENGTH = 128
"""Tokens of a random text, if no length is requested and the model has as many positions."""


def make_model_inputs(checkpoint: LoadedModel, options: RequestedInput) -> list[ModelInput]:
    """Make every input that the options name, in their order."""
    refuse_impossible_input_options(options)
    if checkpoint.user_inputs is not None:
        from attncli.models.inputs.python_api_inputs import make_inputs_from_python

        return make_inputs_from_python(checkpoint)
    reads_media = checkpoint.model_without_head.main_input_name != WORDS
    if reads_media:
        refuse_texts_for_media_model(checkpoint, options)
    has_texts = checkpoint.can_read_texts or are_texts_requested(options)
    if reads_media or options.random_tokens is not None or not has_texts:
        return make_random_inputs(checkpoint, options)
    from attncli.models.inputs.text_inputs import make_text_inputs

    return make_text_inputs(checkpoint, options)


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


def check_config_and_tokenizer(options: RequestedInput, checkpoint: LoadedModel) -> Any:
    """Check config and tokenizer before weights are read; the texts are returned, as stdin is read once."""
    if checkpoint.model_without_head.main_input_name != WORDS:
        refuse_texts_for_media_model(checkpoint, options)
        return None
    if options.random_tokens is not None:
        choose_random_input_length(checkpoint.model, options)
        return None
    from attncli.models.inputs.text_inputs import encode_requested_texts

    return encode_requested_texts(checkpoint, options)


def make_random_inputs(checkpoint: LoadedModel, options: RequestedInput) -> list[ModelInput]:
    """Make random tokens, images or sounds, as the model reads; each sample from its own seed."""
    length = choose_random_input_length(checkpoint.model, options)
    main = checkpoint.model.main_input_name
    kind = "random tokens" if main == WORDS else f"random {main}"
    return [
        make_random_model_input(checkpoint, f"{kind}, seed {seed}", kind, length, seed)
        for seed in range(options.seed, options.seed + options.samples)
    ]


def choose_random_input_length(model: PreTrainedModel, options: RequestedInput) -> int:
    """The requested length, if the model has so many positions."""
    lengths = [each for each in (options.random_tokens, options.tokens) if each is not None]
    if not lengths:
        return min(DEFAULT_LENGTH, find_max_positions(model) or DEFAULT_LENGTH)
    refuse_too_long_text(model, "`random_tokens`", min(lengths))
    return min(lengths)


def make_random_model_input(
    checkpoint: LoadedModel, name: str, kind: str, length: int, seed: int
) -> ModelInput:
    body = checkpoint.model_without_head
    made = make_example_inputs(body, length, seed)
    placed = {
        key: value.to(checkpoint.model.device) if isinstance(value, Tensor) else value
        for key, value in made.items()
    }
    ids = made.get(WORDS)
    if ids is None:
        from attncli.capture.input_token_counts import count_input_positions

        return ModelInput(name, kind, placed, count_input_positions(body, placed) or length)
    labels = label_tokens_by_ids(ids[0].tolist())
    return ModelInput(
        name, kind, placed, len(labels), tuple(labels), label_decoder_tokens(placed, labels)
    )
