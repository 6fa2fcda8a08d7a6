"""Split a batch, as a tokenizer or processor makes one: each row becomes a text of its own, without its padding."""

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from attncli.errors import UsageError
from attncli.forward_argument_types import Inputs
from attncli.models.inputs.padding import ALONG_TOKENS, PADDING, remove_padding
from attncli.models.layer_sizes_from_config import select_text_config
from attncli.models.random.dummy_inputs import make_example_inputs

IDS = ("input_ids", "decoder_input_ids")
POSITIONS = "position_ids"
OTHER_ENDS = ("bos_token_id", "eos_token_id", "sep_token_id")
"""If one of these is also the padding token, a text may begin or end in it."""
NEVER_BY_TEXT = ("cache_position",)
ADVICE = "give a list with a batch of one for each text"


def split_batch(model: PreTrainedModel, inputs: Inputs) -> Iterator[Inputs]:
    """Split one set of arguments into its texts, in order."""
    inputs = add_batch_axis_to_text(inputs)
    count = count_texts_in_batch(model, inputs)
    if count == 0:
        raise UsageError("`inputs` holds no text: its first axis is empty.")
    if count > 1:
        refuse_unmarked_padding(model, inputs)
    for row in range(count):
        own = {
            name: each if count == 1 else select_text_of_batch(name, each, row, count)
            for name, each in inputs.items()
        }
        yield remove_padding(model, own, f"text {row + 1} of `inputs`")


def add_batch_axis_to_text(inputs: Inputs) -> Inputs:
    """Add a batch axis to token ids of a single text, and to its other inputs."""
    ids = inputs.get(IDS[0])
    if not isinstance(ids, Tensor) or ids.ndim != 1:
        return inputs
    flat = {name for name, value in inputs.items() if isinstance(value, Tensor) and value.ndim == 1}
    return {name: value[None] if name in flat else value for name, value in inputs.items()}


def count_texts_in_batch(model: PreTrainedModel, inputs: Inputs) -> int:
    """How many texts there are; one where the first axis is not the batch, as with patches of images."""
    tensors = {
        name: each for name, each in inputs.items() if isinstance(each, Tensor) and each.ndim
    }
    if all(len(each) == 1 for each in tensors.values()):
        return 1
    usual = {name: each for name, each in make_example_inputs(model).items() if each.ndim}
    main = find_main_input_name(model, tensors)
    first, one = tensors[main], usual.get(main)
    if one is not None and len(one) != 1:
        refuse_batch_outside_first_axis(model, main, tensors, usual)
        return 1
    if one is not None and first.ndim == one.ndim - 1:
        raise UsageError(
            f"`inputs`: {main} of the shape {tuple(first.shape)} has no axis of texts: give it as a batch of one."
        )
    return len(first)


def find_main_input_name(model: PreTrainedModel, tensors: Mapping[str, Tensor]) -> str:
    """The name of the main input: what is read, rather than a mask or positions."""
    named: Any = model.main_input_name
    own: list[str] = [named] if isinstance(named, str) else list(named)
    names = [*own, *ALONG_TOKENS, *tensors]
    return next(name for name in names if name in tensors)


def refuse_batch_outside_first_axis(
    model: PreTrainedModel, main: str, tensors: Mapping[str, Tensor], usual: Mapping[str, Tensor]
) -> None:
    """Refuse several texts in a model whose first axis is not the batch: packed patches, codebooks of a sound, frames.

    Inputs with one entry per text show how many there are; without them, another length than usual may mean two.
    """
    counts = {
        name: len(each) for name, each in tensors.items() if name in usual and len(usual[name]) == 1
    }
    several = [name for name, count in counts.items() if count > 1]
    if len(tensors[main]) != len(usual[main]) and (main in IDS or not counts):
        several.append(main)
    if several:
        raise UsageError(
            f"`inputs` may hold several texts at once: {several[0]} of {type(model).__name__} has the shape "
            f"{tuple(tensors[several[0]].shape)}, and {main} no axis of texts to take them apart by: {ADVICE}."
        )


def select_text_of_batch(name: str, value: Any, row: int, count: int) -> Any:
    """One text's row of a tensor; positions may be shared by all."""
    if not isinstance(value, Tensor) or not value.ndim:
        return value
    if name == POSITIONS and value.ndim == 2 and len(value) == 1:
        return value
    of_pairs = name in ("attention_mask", "decoder_attention_mask", POSITIONS) and value.ndim > 2
    if len(value) != count or of_pairs or name in NEVER_BY_TEXT:
        raise UsageError(
            f"`inputs` holds {count} texts at once, and which part of {name}, of the shape {tuple(value.shape)}, belongs to "
            f"each is not known: {ADVICE}."
        )
    return value[row : row + 1]


def refuse_unmarked_padding(model: PreTrainedModel, provided: Inputs) -> None:
    """Refuse rows of one length that begin or end in padding without a mask."""
    config = vars(select_text_config(model.config))
    pad, named = config.get("pad_token_id"), [config.get(name) for name in OTHER_ENDS]
    others = {each for one in named for each in (one if isinstance(one, list) else [one])}
    for name in IDS:
        ids = provided.get(name)
        masked = any(mask in provided and name in inputs for mask, inputs in PADDING.items())
        if (
            not isinstance(pad, int)
            or pad in others
            or masked
            or not isinstance(ids, Tensor)
            or ids.ndim != 2
        ):
            continue
        begins, ends = (ids[:, side] == pad for side in (0, -1))
        if bool(ends.any()) or bool(begins.any() and not begins.all()):
            raise UsageError(
                f"`inputs` holds texts of which {name} begins or ends with the padding token {pad}, and no mask that says "
                "whether it is padding: give the tokenizer's attention_mask too, or a list with one text each."
            )
