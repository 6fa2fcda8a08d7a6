"""What the decoder of an encoder–decoder reads: the same text, shifted by the model's own function."""

import inspect
import sys

from torch import Tensor
from transformers import PreTrainedModel

from attncli.errors import InputError


def shift_ids_right(model: PreTrainedModel, ids: Tensor) -> Tensor:
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
