"""One text, image or sound as the model's keyword arguments."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from attncli.forward_argument_types import Inputs, Kwargs
from attncli.records import JsonObject

WORDS = "input_ids"
"""The argument of a text's token ids."""
OF_WORDS = frozenset({WORDS, "decoder_input_ids"})
"""All arguments of token ids."""

Shapes = tuple[tuple[object, ...], ...]
"""What inputs of one batch have in common."""


def cast_floating_inputs(inputs: Inputs, dtype: torch.dtype) -> dict[str, Tensor]:
    """Cast floating tensors to the model's dtype, which may differ from the user's, and copy inference tensors."""

    def cast_if_floating(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        plain = value.clone() if value.is_inference() else value
        return plain.to(dtype) if plain.is_floating_point() else plain

    return {name: cast_if_floating(value) for name, value in inputs.items()}


def describe_input_shapes(inputs: Inputs) -> Shapes:
    """Name, dtype and shape of each tensor, and what is no tensor as it is."""
    return tuple(
        (name, value.dtype, tuple(value.shape))
        if isinstance(value, Tensor)
        else (name, repr(value))
        for name, value in inputs.items()
    )


@dataclass(frozen=True, slots=True)
class ModelInput:
    """One text (or image, or sound) as the model's keyword arguments."""

    name: str
    kind: str
    """`text`, `token ids`, `random tokens` or `random pixel_values` and the like, for the report."""
    kwargs: dict[str, Tensor]
    """A batch of one."""
    tokens: int
    labels: tuple[str, ...] = ()
    """The tokens' strings, where known."""
    decoder_labels: tuple[str, ...] = ()
    """The strings of the decoder's tokens, for an encoder-decoder."""
    random_inputs: tuple[str, ...] = ()
    """Names of extra inputs that were drawn at random, as the model does not run on a text alone."""

    def cast_to_float64(self) -> "ModelInput":
        """The same input for a model in float64: images and sounds have the model's dtype."""
        return replace(self, kwargs=cast_floating_inputs(self.kwargs, torch.float64))

    @property
    def sha256(self) -> str:
        """The hash of all input tensors."""
        digest = hashlib.sha256()
        for name, tensor in self.kwargs.items():
            value = (
                serialise_tensor_for_hash(tensor)
                if isinstance(tensor, Tensor)
                else repr(tensor).encode()
            )
            digest.update(name.encode() + value)
        return digest.hexdigest()

    def describe_model_input(self) -> JsonObject:
        """How the report describes the text, beyond its name."""
        drawn = {"drawn_beside": list(self.random_inputs)} if self.random_inputs else {}
        return {"name": self.name, "tokens": self.tokens, "sha256": self.sha256, **drawn}


def label_tokens_by_ids(ids: Sequence[int]) -> list[str]:
    """Labels where there is no tokenizer: the ids."""
    return [str(each) for each in ids]


def label_decoder_tokens(kwargs: Kwargs, labels: Sequence[str]) -> tuple[str, ...]:
    """The decoder's labels: the encoder's, by id; start tokens are labelled by id, and sounds not at all."""
    moved, ids = kwargs.get("decoder_input_ids"), kwargs.get(WORDS)
    if moved is None or ids is None or moved.dim() > 2:
        return ()
    known = dict(zip(ids[0].tolist(), labels, strict=True))
    return tuple(known.get(each, str(each)) for each in moved[0].tolist())


def serialise_tensor_for_hash(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return (
        f"{tensor.dtype} {tuple(tensor.shape)}".encode() + flat.view(torch.uint8).numpy().tobytes()
    )


def describe_inputs_besides_token_ids(texts: Sequence[ModelInput]) -> Iterator[str]:
    """Describe the extra inputs drawn for texts, for readers of the numbers."""
    extra_names = dict.fromkeys(name for text in texts for name in text.random_inputs)
    if extra_names:
        yield (
            f"the model does not run on a text alone: attn adds random {', '.join(extra_names)}, "
            "and parts that read them depend on these."
        )
