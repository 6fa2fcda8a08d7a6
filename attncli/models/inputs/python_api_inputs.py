"""Inputs of Python callers, as keyword arguments of the model's forward: one text at a time."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attncli.capture import AttentionSite, Strip, capture_attention
from attncli.capture.input_token_counts import count_input_positions
from attncli.capture.model_errors import run_model_or_refuse_input
from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.capture.undetected_attention import explain_uncaptured_attention
from attncli.errors import InputError, UsageError, add_article, quote_parameter_name
from attncli.forward_argument_types import Args, Inputs
from attncli.models.inputs.model_input import (
    WORDS,
    ModelInput,
    Shapes,
    cast_floating_inputs,
    describe_input_shapes,
)
from attncli.models.inputs.split_batch import split_batch
from attncli.models.inputs.vocabulary_and_positions import refuse_too_long_text
from attncli.models.loading.loaded_model import LoadedModel
from attncli.models.model_classes import find_forward_signature

PLAIN = (Tensor, bool, int, float, str, type(None))

WRITE = "a tensor, a tuple of tensors, a mapping by name, or a list of these, one for each text"


class StopAtFirstMap(Exception):
    """Raised at the first attention, to skip the rest of the forward."""

    def __init__(self, strip: Strip) -> None:
        self.strip = strip


def iter_forward_arguments(model: nn.Module, value: Any) -> Iterator[Inputs]:
    """Iterate over the arguments for every text, in order; batches of transformers' models are split."""
    texts = value if isinstance(value, list) and not is_list_of_token_ids(value) else [value]
    if not texts:
        raise UsageError(f"`inputs` is empty: give {WRITE}.")
    is_foreign = isinstance(model, ForeignModule)
    module: Any = model.model if is_foreign else model
    device: Any = model.device
    for text in texts:
        found = bind_forward_arguments(module, convert_arrays_to_tensors(text, device))
        if is_foreign:
            refuse_key_padding_mask(found)
        yield from [found] if is_foreign else split_batch(module, found)


def refuse_key_padding_mask(inputs: Inputs) -> None:
    """Refuse key padding under the name of torch's own modules: padded tokens would count as queries."""
    for name, value in inputs.items():
        if name.endswith("key_padding_mask") and isinstance(value, Tensor) and bool(value.any()):
            raise UsageError(f"`inputs`: {name} marks padding: give each text without it.")


def is_list_of_token_ids(value: object) -> bool:
    """Whether a list is the token ids of one text."""
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)


def convert_arrays_to_tensors(value: Any, device: torch.device) -> Any:
    """Convert numpy arrays and lists of numbers to tensors; everything else stays."""
    if isinstance(value, Mapping):
        return {name: convert_arrays_to_tensors(each, device) for name, each in value.items()}
    if isinstance(value, tuple):
        return tuple(convert_arrays_to_tensors(each, device) for each in value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return torch.tensor(value, device=device)
    if is_list_of_token_ids(value):
        return torch.tensor([value], device=device)
    if isinstance(value, list) and value and all(map(is_list_of_token_ids, value)):
        if len(set(map(len, value))) > 1:
            raise UsageError(
                "`inputs` holds lists of several lengths under one name: give a list of texts, or what the tokenizer returns "
                "with padding=True and return_tensors='pt'."
            )
        return torch.tensor(value, device=device)
    return value


def bind_forward_arguments(module: nn.Module, text: Any, called: str = "inputs") -> Inputs:
    """Bind positional arguments to the forward's names; `called`: the parameter that names the inputs."""
    args = text if isinstance(text, tuple) else () if isinstance(text, Mapping) else (text,)
    named = dict(text) if isinstance(text, Mapping) else {}
    wrong = next((each for each in (*args, *named.values()) if not isinstance(each, PLAIN)), None)
    if wrong is not None or not any(isinstance(each, Tensor) for each in (*args, *named.values())):
        raise UsageError(
            f"{quote_parameter_name(called)} holds {add_article(type(text if wrong is None else wrong).__name__)}: give {WRITE}."
        )
    try:
        bound = find_called_forward_signature(module, args).bind(*args, **named)
    except TypeError as error:
        raise UsageError(
            f"{quote_parameter_name(called)} does not fit the forward of {type(module).__name__}: {error}."
        ) from None
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            raise UsageError(
                f"{type(module).__name__} takes any number of arguments: give {quote_parameter_name(called)} by name."
            )
        found |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return found


def find_called_forward_signature(module: nn.Module, args: Args) -> inspect.Signature:
    """Find the forward's signature; where it passes on `*args`, that of the forward it calls."""
    own = inspect.signature(module.forward)
    hands_on = any(each.kind is each.VAR_KEYWORD for each in own.parameters.values())
    return find_forward_signature(module) if args and hands_on else own


def require_model_accepts_inputs(model: nn.Module, inputs: Inputs) -> None:
    """Run the module, and refuse inputs that its own code rejects."""
    with torch.no_grad():
        run_model_or_refuse_input(model, inputs, wrong="on its `inputs`", advice="")


def count_first_attention_keys(model: nn.Module, inputs: Inputs) -> int:
    """Count the tokens of the first attention, by a forward that ends there; several texts at once are refused."""

    def stop_at_first_map(_: AttentionSite, strip: Strip) -> None:
        raise StopAtFirstMap(strip)

    try:
        with torch.no_grad(), capture_attention(model, stop_at_first_map):
            model(**inputs)
    except StopAtFirstMap as reached:
        texts = reached.strip.weights.shape[0]
        if texts > 1 and not is_batch_of_one_text(find_first_input_tensor(inputs)):
            raise UsageError(
                f"`inputs` holds {texts} texts at once: give a list, with a batch of one for each text."
            ) from None
        return reached.strip.keys
    raise InputError(explain_uncaptured_attention(model, inputs))


def find_first_input_tensor(inputs: Inputs) -> Any:
    """The first tensor: a forward names what it reads before masks and positions."""
    return next(
        (each for each in inputs.values() if isinstance(each, Tensor) and each.ndim >= 2), None
    )


def is_batch_of_one_text(value: object) -> bool:
    """Whether a tensor is a batch of one, with the batch or the tokens first."""
    return isinstance(value, Tensor) and value.ndim >= 2 and 1 in value.shape[:2]


def make_inputs_from_python(checkpoint: LoadedModel) -> list[ModelInput]:
    """Make inputs from a Python caller's arguments."""
    body = checkpoint.model_without_head
    found = [
        cast_floating_inputs(each, body.dtype)
        for each in iter_forward_arguments(body, checkpoint.user_inputs)
    ]
    tokens = count_tokens_by_input_shapes(body, found)
    return [
        ModelInput(f"inputs {number}", "given inputs", each, tokens[describe_input_shapes(each)])
        for number, each in enumerate(found, 1)
    ]


def count_tokens_by_input_shapes(body: nn.Module, texts: Sequence[Inputs]) -> dict[Shapes, int]:
    """Count the tokens of texts, once for all of the same shapes; run the first with each set of arguments."""
    ran: set[frozenset[str]] = set()
    counts: dict[Shapes, int] = {}
    for each in texts:
        if (names := frozenset(each)) not in ran:
            require_model_accepts_inputs(body, each)
            ran.add(names)
        if (shapes := describe_input_shapes(each)) not in counts:
            counts[shapes] = count_tokens_of_python_input(body, each)
    return counts


def count_tokens_of_python_input(body: Any, inputs: Inputs) -> int:
    """Count tokens: words of a text; for other inputs of a module, the tokens that its attention sees."""
    if isinstance(body, ForeignModule):
        if not body.attending:  # of the first, on which the capture is verified
            body.find_attending_submodules(inputs)
        return count_first_attention_keys(body, inputs)
    ids = inputs.get(WORDS)
    refuse_too_long_text(body, "`inputs`", 0 if ids is None else ids.shape[-1])
    return ids.shape[-1] if ids is not None else count_input_positions(body, inputs) or 1
