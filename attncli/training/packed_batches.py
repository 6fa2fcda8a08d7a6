"""The texts in a batch, without padding; several texts may be packed into one row."""

from typing import NamedTuple

import torch
from torch import Tensor

from attncli.capture.softmax_attention.attention_interface import EagerCall
from attncli.forward_argument_types import Inputs

TOKEN_SHAPED = ("input_ids", "inputs_embeds", "attention_mask", "position_ids")


class TextSpan(NamedTuple):
    """Tokens of one batch item that are one text."""

    item: int
    start: int
    stop: int


def find_unpadded_spans(inputs: Inputs) -> list[TextSpan]:
    """The tokens of each batch item that are no padding."""
    shaped = next(each for name in TOKEN_SHAPED if (each := inputs.get(name)) is not None)
    items, tokens = shaped.shape[:2]
    mask = inputs.get("attention_mask")
    if mask is None or mask.dim() != 2 or mask.shape != (items, tokens):
        return [TextSpan(item, 0, tokens) for item in range(items)]
    return [
        piece
        for item in range(items)
        for piece in find_contiguous_unpadded_tokens(item, mask[item] != 0)
    ]


def find_contiguous_unpadded_tokens(item: int, real: Tensor) -> list[TextSpan]:
    """Stretches of true values."""
    padded = torch.nn.functional.pad(real.to("cpu", torch.int8), (1, 1))
    steps = padded.diff()
    starts, stops = (steps == 1).nonzero()[:, 0], (steps == -1).nonzero()[:, 0]
    return [
        TextSpan(item, int(start), int(stop)) for start, stop in zip(starts, stops, strict=True)
    ]


def split_packed_batch_rows(inputs: Inputs, rows: list[TextSpan]) -> list[TextSpan]:
    """The rows cut where the position ids begin anew; the rows themselves where they never do."""
    positions = inputs.get("position_ids")
    if positions is None or positions.dim() != 2:
        return rows
    found = []
    for row in rows:
        own = positions[row.item if len(positions) > 1 else 0, row.start : row.stop].tolist()
        cuts = [place for place in range(1, len(own)) if own[place] != own[place - 1] + 1]
        for start, stop in zip([0, *cuts], [*cuts, len(own)], strict=True):
            found.append(TextSpan(row.item, row.start + start, row.start + stop))
    return found


def are_texts_separated_by_mask(call: EagerCall, pieces: list[TextSpan]) -> bool:
    """Whether the mask separates the pieces of an item: position ids alone do not."""
    if call.mask is None:
        return False
    for piece in pieces:
        rows = call.mask[piece.item if len(call.mask) > 1 else 0][:, piece.start : piece.stop]
        visible = rows > torch.finfo(torch.float32).min / 2
        visible[..., piece.start : piece.stop] = False
        for other in pieces:
            if (
                other.item == piece.item
                and other != piece
                and bool(visible[..., other.start : other.stop].any())
            ):
                return False
    return True


def slice_attention_call(call: EagerCall, items: list[int], start: int, stop: int) -> EagerCall:
    """The attention call on the same tokens of some batch items; itself where these are all that there is."""
    is_whole = len(items) == len(call.query) and (start, stop) == (0, call.query_count)
    if is_whole and (call.mask is None or len(call.mask) == 1):
        return call
    here = slice(start, stop)
    query, key, value = (side[items][:, :, here] for side in (call.query, call.key, call.value))
    keywords = {
        name: slice_mask_like_argument(value, call, items, here)
        for name, value in call.keywords.items()
    }
    mask = slice_mask_like_argument(call.mask, call, items, here)
    if mask is not None and len(mask) > 1 and torch.equal(mask, mask[:1].expand_as(mask)):
        mask = mask[:1]
    return EagerCall(call.module, query, key, value, mask, keywords)


def slice_mask_like_argument(
    value: Tensor | None, call: EagerCall, items: list[int], here: slice
) -> Tensor | None:
    """Slice arguments with a row for each query and a column for each key, such as a mask."""
    if not isinstance(value, Tensor) or value.dim() != 4 or value.shape[2] != call.query_count:
        return value
    value = value[items] if len(value) > 1 else value
    value = value[:, :, here]
    return value[..., here] if value.shape[-1] == call.key_count else value
