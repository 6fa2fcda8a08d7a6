"""The input on which a model is verified: an example, or the caller's own parts with their text cut short."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from attncli.capture.model_errors import translate_model_errors
from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.capture.model_structure.truncate_residual_stream_tokens import StreamTruncation
from attncli.errors import InputError
from attncli.forward_argument_types import Inputs
from attncli.models.inputs.padding import BESIDE, PADDING
from attncli.models.model_classes import iter_nested_configs
from attncli.models.random.dummy_inputs import does_model_accept_inputs, make_example_inputs
from attncli.models.random.make_short_inputs import (
    find_truncation_for_verification,
    make_short_inputs,
)

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from attncli.models.inputs.model_input import ModelInput

PROBE_TOKENS = 12
"""Length of the text on which a model's structure is found and verified."""

TEXTS = (("input_ids", "inputs_embeds"), ("decoder_input_ids", "decoder_inputs_embeds"))
"""Inputs with one position for each token of a text, by which all that goes along with them is cut."""

PLACEHOLDER = re.compile(
    r".*(image|img|video|vision|visual|audio|speech|sound|media|patch).*_(id|index)"
)
"""Config attributes for tokens in whose places a part of a picture or a sound is put."""


class ShortInput(NamedTuple):
    """The input on which a model is verified."""

    kwargs: Inputs
    tokens: int
    """Length of its text."""
    cut: StreamTruncation = StreamTruncation()
    """Where the model's streams are cut short too."""


def choose_short_input(
    body: "PreTrainedModel", text: "ModelInput | None" = None, cheapest: bool = False
) -> ShortInput:
    """The example input; the caller's own where it has other parts, such as a picture inside a text.

    A module of another origin is verified on its own text, since what else it reads is not known. `cheapest`: for questions
    that run it many times, pictures and streams are cut short too.
    """
    if isinstance(body, ForeignModule) and text is not None:
        return ShortInput(text.kwargs, text.tokens)
    own = None if text is None else truncate_user_inputs(body, text)
    if own is None:
        make = make_short_inputs if cheapest else make_example_inputs
        own = ShortInput(make(body, PROBE_TOKENS), PROBE_TOKENS)
    if not cheapest:
        return own
    with translate_model_errors(body, {"a short input": own.kwargs}):
        return own._replace(cut=find_truncation_for_verification(body, own.kwargs, PROBE_TOKENS))


def truncate_user_inputs(body: "PreTrainedModel", text: "ModelInput") -> ShortInput | None:
    """The caller's own input with its text cut short where the model then runs; None where the example has the same parts."""
    try:
        if list_main_input_names(text.kwargs) == list_main_input_names(
            make_example_inputs(body, PROBE_TOKENS)
        ):
            return None
    except InputError:  # parts that cannot be made up
        pass
    short = truncate_text_inputs(body.config, text.kwargs)
    found = short if does_model_accept_inputs(body, short) else text.kwargs
    return ShortInput(found, min(text.tokens, text_input_length(found) or text.tokens))


def list_main_input_names(inputs: Inputs) -> set[str]:
    """Names of the inputs that decide which parts of a model run: no masks, nor what goes along with a text's tokens."""
    return {
        name
        for name, value in inputs.items()
        if isinstance(value, Tensor) and name not in PADDING and not BESIDE.fullmatch(name)
    }


def text_input_length(inputs: Inputs) -> int:
    return max((inputs[name].shape[1] for name in TEXTS[0] if name in inputs), default=0)


def truncate_text_inputs(config: "PreTrainedConfig", inputs: Inputs) -> Inputs:
    """Cut each text to its first tokens, up to the last that stands for a part of a picture or a sound."""
    found = inputs
    for names in TEXTS:
        for main in names:
            if isinstance(ids := inputs.get(main), Tensor):
                found = {
                    **found,
                    **truncate_text_and_masks(inputs, main, find_truncated_length(config, ids)),
                }
    return found


def truncate_text_and_masks(inputs: Inputs, main: str, stop: int) -> Inputs:
    """A text and its masks, types and places, cut to as many tokens."""
    length = inputs[main].shape[1]
    along = {main, *(name for name, along_with in PADDING.items() if main in along_with)}
    side = main.startswith("decoder_")
    along |= {
        name for name in inputs if BESIDE.fullmatch(name) and name.startswith("decoder_") == side
    }
    return {
        name: value[:, :stop]
        for name, value in inputs.items()
        if name in along and isinstance(value, Tensor) and value.shape[1:2] == (length,)
    }


def find_truncated_length(config: "PreTrainedConfig", text: Tensor) -> int:
    """How many tokens stay; all of a text of embeddings, which do not show what their places stand for."""
    if text.is_floating_point():
        return text.shape[1]
    known = set(iterate_placeholder_token_ids(config))
    places = (place for place, each in enumerate(text[0].tolist()) if each in known)
    return max(PROBE_TOKENS, 1 + max(places, default=-1))


def iterate_placeholder_token_ids(config: "PreTrainedConfig") -> Iterator[int]:
    for nested in iter_nested_configs(config):
        for name, value in vars(nested).items():
            if PLACEHOLDER.fullmatch(name) and isinstance(value, int):
                yield value
