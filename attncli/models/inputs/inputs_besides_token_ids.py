"""Inputs that a model's forward needs in addition to ids, drawn by the rules of random inputs; what its decoder reads."""

import inspect
import sys
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from attncli.capture.model_structure.probe_forward import probe_forward
from attncli.capture.reruns.seed_and_precision import preserve_float64_precision
from attncli.capture.verify_captured_attention import list_output_tensors
from attncli.errors import InputError, UsageError, format_parameter_list
from attncli.forward_argument_types import Inputs
from attncli.models.inputs.input_options import TEXT_OPTIONS
from attncli.models.inputs.model_input import OF_WORDS, WORDS
from attncli.models.model_classes import find_forward_signature
from attncli.models.random.dummy_inputs import (
    does_model_accept_inputs,
    list_required_inputs,
    make_example_inputs,
    make_named_inputs,
)

SHORT = 12
"""Tokens of the input on which these are determined."""


@dataclass(frozen=True, slots=True)
class ExtraInputs:
    """The names of a forward's inputs."""

    reads_decoder_ids: bool
    every: tuple[str, ...] = ()
    """All input names, where ids alone do not suffice."""

    @property
    def names_besides_token_ids(self) -> tuple[str, ...]:
        return tuple(name for name in self.every if name not in OF_WORDS)

    def make_inputs_besides_token_ids(
        self, body: PreTrainedModel, tokens: int, seed: int
    ) -> dict[str, Tensor]:
        """Make the other inputs for a text of this many tokens."""
        if not self.names_besides_token_ids:
            return {}
        found = make_named_inputs(body, self.every, tokens, seed, small=False)
        return {name: found[name] for name in self.names_besides_token_ids}


def find_inputs_besides_token_ids(body: PreTrainedModel) -> ExtraInputs:
    """Find what the forward needs with ids, on a short input; refuse a model that reads no ids, or several a token."""
    taken = find_forward_signature(body).parameters
    any_name = any(each.kind is each.VAR_KEYWORD for each in taken.values())
    decoder = any_name or "decoder_input_ids" in taken
    names = list_required_inputs(body)
    if not names and any_name:  # a class of its own, whose signature does not show what it reads
        return ExtraInputs(decoder)
    if WORDS not in names:
        refuse_text_options(body, format_parameter_list(names, " and ") or "nothing that is known")
    short = make_example_inputs(body, SHORT)
    if not has_one_id_per_token(short):
        refuse_text_options(
            body, f"several codes for each token (`{WORDS}` of shape {list(short[WORDS].shape)})"
        )
    alone = {name: value for name, value in short.items() if name in OF_WORDS}
    if len(alone) == len(short) or can_run_on_token_ids_alone(body, alone, short):
        return ExtraInputs(decoder)
    refuse_model_ignoring_token_ids(body, short)
    return ExtraInputs(decoder, tuple(short))


def can_run_on_token_ids_alone(body: PreTrainedModel, alone: Inputs, short: Inputs) -> bool:
    """Whether the model runs on ids alone, and every attention still runs that does with other inputs.

    Other inputs may switch the text's own part off, as speech does: then the text runs without them.
    """
    if not does_model_accept_inputs(body, alone):
        return False
    own, every = find_attention_module_paths(body, alone), find_attention_module_paths(body, short)
    return own == every or not own.issubset(every)


def find_attention_module_paths(body: PreTrainedModel, inputs: Inputs) -> set[tuple[str, ...]]:
    """Find where attention happens, by the modules around it."""
    with preserve_float64_precision(body):
        return {
            tuple(call.name for call in around) for around in probe_forward(body, inputs).attention
        }


def refuse_model_ignoring_token_ids(body: PreTrainedModel, short: Inputs) -> None:
    """Refuse a model whose output ignores ids: other inputs may replace them."""
    moved = {**short, WORDS: short[WORDS].roll(1, dims=1)}
    with torch.no_grad(), preserve_float64_precision(body):
        one, other = (list_output_tensors(body(**each)) for each in (short, moved))
    if all(map(torch.equal, one, other)):
        others = [name for name in short if name not in OF_WORDS]
        refuse_text_options(body, format_parameter_list(others, " and "))


def refuse_text_options(body: PreTrainedModel, read: str) -> None:
    raise UsageError(
        f"{type(body).__name__} reads {read}, not text: leave the text options out.",
        about=TEXT_OPTIONS,
    )


def has_one_id_per_token(inputs: Inputs) -> bool:
    """Whether a token is one id: audio decoders read one code of each codebook."""
    ids = inputs.get(WORDS)
    return isinstance(ids, Tensor) and ids.dim() == 2 and len(ids) == 1


def shift_decoder_ids_right(model: PreTrainedModel, ids: Tensor) -> Tensor:
    """Shift ids right: by `_shift_right` of the class (T5), `shift_tokens_right` of its file (BART), else by hand."""
    config = model.config
    start = getattr(config, "decoder_start_token_id", None)
    own = getattr(model, "_shift_right", None)
    of_file = getattr(sys.modules[type(model).__module__], "shift_tokens_right", None)
    moved: Tensor | None = None
    try:
        if own is not None:
            moved = own(ids)
        elif of_file is not None:
            arguments = (config.pad_token_id, start)
            moved = of_file(ids, *arguments[: len(inspect.signature(of_file).parameters) - 1])
    except (TypeError, ValueError, AttributeError) as error:
        if start is None or isinstance(error, TypeError):  # fails where the padding id is None
            raise make_no_start_token_error(model) from None
        raise InputError(
            f"{type(model).__name__} cannot shift a text for its decoder: {error}."
        ) from None
    if moved is not None:
        return moved
    if start is None:
        raise make_no_start_token_error(model)
    by_hand = ids.roll(1, dims=1)
    by_hand[:, 0] = start
    return by_hand


def make_no_start_token_error(model: PreTrainedModel) -> InputError:
    return InputError(
        f"the config of {type(model).__name__} names no decoder_start_token_id, with which its decoder would begin: set it (T5's is "
        "its pad_token_id), or give `random_tokens`."
    )
