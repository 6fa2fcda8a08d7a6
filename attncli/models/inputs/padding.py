"""Remove padding from one text: a padded token is not measured."""

import re
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from attncli.errors import UsageError
from attncli.forward_argument_types import Inputs
from attncli.models.random.dummy_inputs import list_required_inputs

ALONG_TOKENS = ("input_ids", "inputs_embeds", "input_values", "input_features")
"""Inputs with one position for each token, sample or frame."""
OF_DECODERS = ("decoder_input_ids", "decoder_inputs_embeds")
PADDING = {
    "attention_mask": ALONG_TOKENS,
    "padding_mask": ALONG_TOKENS,
    "input_features_mask": ("input_features",),
    "pixel_attention_mask": ("pixel_values",),
    "pixel_mask": ("pixel_values",),
    "decoder_attention_mask": OF_DECODERS,
}
"""Masks that mark padding, and the inputs that they belong to."""
WORDS = {"input_ids", "inputs_embeds", *OF_DECODERS}
"""Inputs whose mask can be dropped if it hides nothing: the model makes the same one by itself."""
BESIDE = re.compile(
    r"(decoder_)?(\w*token_type_ids|position_ids|bbox|labels|global_attention_mask|special_tokens_mask)"
)
"""Names of inputs that run along the tokens of a text."""
IMAGES = "pixel_values"
"""Images have axes of their own, which may be as long as the text."""


def remove_padding(model: PreTrainedModel, provided: Inputs, text: str) -> Inputs:
    """Cut a batch of one to what its masks leave."""
    found = dict(provided)
    for mask, inputs in PADDING.items():
        value = found.get(mask)
        if not isinstance(value, Tensor) or value.ndim < 2 or len(value) != 1:
            continue
        of = next(
            (
                name
                for name in inputs
                if read_tensor_shape(found.get(name))[:2] == read_tensor_shape(value)
            ),
            None,
        )
        if of is None:
            refuse_unsupported_padding_mask(mask, value, text)
            continue
        real = find_unpadded_slice(mask, value, text)
        if real.stop - real.start < value.shape[1]:
            found = {
                name: cut_padding_of_input(name, each, of, mask, real, value.shape[1], text)
                for name, each in found.items()
            }
        if of in WORDS and mask not in list_required_inputs(model):
            del found[mask]
    return {
        name: each.contiguous() if isinstance(each, Tensor) else each
        for name, each in found.items()
    }


def read_tensor_shape(value: object) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else ()


def refuse_unsupported_padding_mask(mask: str, value: Tensor, text: str) -> None:
    """Refuse a mask of another shape than its input; masks of token pairs mark no padding."""
    pairs = mask in ("attention_mask", "decoder_attention_mask") and value.ndim > 2
    if not pairs and not bool((value != 0).all()):
        raise UsageError(
            f"{mask} of {text} leaves out a part that cannot be cut off what the model reads: give it without padding, or "
            "without the mask if all of it is to be read."
        )


def find_unpadded_slice(mask: str, value: Tensor, text: str) -> slice:
    """The slice without padding, in one piece."""
    numbers = value[0].cpu()
    if not bool(((numbers == 0) | (numbers == 1)).all()):
        raise UsageError(f"{mask} of {text} must hold 1 for tokens and 0 for padding alone.")
    places = numbers.nonzero()[:, 0].tolist()
    if not places:
        raise UsageError(f"{mask} of {text} leaves out all of it: give texts with tokens.")
    if len(places) < places[-1] + 1 - places[0]:
        raise UsageError(
            f"{mask} of {text} leaves out tokens between others, and not only before or behind them: give the tokens that are "
            "to be read alone."
        )
    return slice(places[0], places[-1] + 1)


def cut_padding_of_input(
    name: str, value: Any, of: str, mask: str, real: slice, length: int, text: str
) -> Any:
    """Cut padding from inputs that run along the same tokens."""
    sizes = read_tensor_shape(value)
    of_decoder = name.startswith("decoder_")
    if (
        length not in sizes[1:]
        or of_decoder != (of in OF_DECODERS)
        or (name.startswith(IMAGES) and of != IMAGES)
    ):
        return value
    if (name in (mask, of) or BESIDE.fullmatch(name)) and sizes[1] == length:
        return value[:, real]
    raise UsageError(
        f"{mask} of {text} marks padding, and whether {name}, of the shape {sizes}, goes along the tokens is not known: give "
        "a list of texts without padding."
    )
