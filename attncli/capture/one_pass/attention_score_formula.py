"""What a call of the attention interface makes of its scores: their scale and cap, masks, biases and sinks."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from attncli.capture.softmax_attention.attention_interface import EagerCall
from attncli.capture.softmax_attention.visible_key_spans import KeySpans, slice_mask_rows

BIAS = 2**20
"""Numbers of masks and biases that are added to scores at a time."""


FEWEST_ROWS = 64
"""Rows at a time, even so."""


class Formula(NamedTuple):
    """What a call's arguments make of the scores."""

    scale: float
    cap: float
    sinks: Tensor | None
    bias: Tensor | None
    """[batch or 1, head or 1, query, key]"""


class NotCovered(Exception):
    """Why an attention is left to the model's own function."""


def read_attention_score_formula(call: EagerCall) -> Formula:
    keywords = call.keywords
    width = call.query.shape[-1]
    scale, cap, bias = (keywords.get(name) for name in ("scaling", "softcap", "position_bias"))
    sinks = keywords.get("s_aux", getattr(call.module, "sinks", None))
    for name, value in keywords.items():
        if (
            name not in ("position_bias", "s_aux")
            and call.slice_query_rows(value, 0, 1) is not value
        ):
            raise NotCovered(f"given {name}")
    return Formula(
        width**-0.5 if scale is None else float(scale),
        0.0 if cap is None else float(cap),
        None if sinks is None else read_sink_scores(sinks, call.query.shape[1]),
        bias,
    )


def read_sink_scores(sinks: Tensor | None, heads: int) -> Tensor:
    if not isinstance(sinks, Tensor) or sinks.numel() != heads:
        raise NotCovered("sinks of another shape")
    return sinks.detach().flatten().float().contiguous()


def is_attention_score_bias(bias: Tensor | None, call: EagerCall) -> bool:
    """Whether this is [batch or 1, head or 1, query or 1, key] of floats."""
    if not isinstance(bias, Tensor) or bias.dim() != 4 or not bias.dtype.is_floating_point:
        return False
    full = (len(call.query), call.query.shape[1], call.query_count)
    alike = all(size in (1, own) for size, own in zip(bias.shape, full, strict=False))
    return alike and bias.shape[3] == call.key_count


def iter_row_ranges_for_biases(
    call: EagerCall, formula: Formula, spans: KeySpans | None
) -> Iterator[tuple[int, int]]:
    """First and last rows that are computed at a time: all, unless something is added to the scores."""
    biases = [formula.bias, call.mask if spans is None else None]
    sizes = [len(bias) * bias.shape[1] for bias in biases if bias is not None]
    step = max(FEWEST_ROWS, BIAS // (max(sizes) * call.key_count)) if sizes else call.query_count
    for start in range(0, call.query_count, step):
        yield start, min(start + step, call.query_count)


def combine_score_bias_and_mask(
    call: EagerCall, formula: Formula, spans: KeySpans | None, start: int, stop: int
) -> Tensor | None:
    """[batch or 1, head or 1, query or 1, key] float32: what is added to the scores of some rows."""
    found = None if formula.bias is None else slice_mask_rows(formula.bias, start, stop).float()
    if spans is None:
        assert call.mask is not None
        mask = slice_mask_rows(call.mask, start, stop).float()
        found = mask if found is None else found + mask
    return None if found is None else found.contiguous()
