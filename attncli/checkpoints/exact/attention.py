"""Attention on split queries, keys and values.

Content-only attention without a mask tends to one common row, and what is left of it must be computed without
cancellation. Wherever positions or a mask keep the rows apart, P itself is enough: its rows sum to one, so P(1c^T + V)
= 1c^T + P V, and the model's own eager function computes P V.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attncli.checkpoints.ablation.float64 import in_float64
from attncli.checkpoints.exact.tensor import SplitTensor, centred, rule
from attncli.checkpoints.streaming.interface import own_eager
from attncli.checkpoints.streaming.masks import plain as whole
from attncli.errors import InputError, Unresolved
from attncli.maths.logits import Logits
from attncli.maths.scaled import Scaled, plus, scaled, times
from attncli.maths.softmax import RESOLVED_BITS, reference_offset, softmax_deviation

CLOSE = 1e-9
"""How well our attention must agree with the model's own while both have their digits."""

COMPARABLE = -20
"""log2 of the output's varying part relative to all of it, above which plain numbers can be compared with."""

STATED = {"softcap", "s_aux", "sinks", "position_bias"}
"""Keywords that change the logits."""


class Arguments(NamedTuple):
    """What a model gives its attention beside queries, keys and values."""

    module: nn.Module
    mask: Tensor | None
    scaling: float
    keywords: Mapping[str, Any]


CURRENT: list[Arguments] = []
"""Of the attention that is being computed."""


def attend(
    module: nn.Module,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """In place of a model's eager attention; [batch, head, token, width] in, [batch, token, head, width] out.

    It goes through torch's own function of that meaning, so that whoever watches the model sees an attention.
    """
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    CURRENT.append(Arguments(module, whole(attention_mask), scaling, keywords))
    try:
        return F.scaled_dot_product_attention(query, key, value), None
    finally:
        CURRENT.pop()


@rule(F.scaled_dot_product_attention)
def attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> SplitTensor:
    if not isinstance(value, SplitTensor):
        raise InputError("--exact cannot attend to another stack's states: leave --exact out.")
    if not CURRENT:
        raise SplitTensor.refusal("sdpa")
    given = CURRENT[-1]
    by_content = isinstance(query, SplitTensor) and isinstance(key, SplitTensor)
    everywhere = given.mask is None or not bool((given.mask < 0).any())
    stated = any(given.keywords.get(name) is not None for name in STATED)
    if not (by_content and everywhere) or stated:
        return given_attention(given, query, key, value)
    output = content_attention(query, key, value, given.scaling)
    compare(output, given, query, key, value)
    return output


def content_attention(
    query: SplitTensor, key: SplitTensor, value: SplitTensor, scaling: float
) -> SplitTensor:
    """π^T V and (P - 1π^T) V, the reference row π that of the last token's query."""
    heads = query.shape[1]
    q_common, q, k, v = (
        heads_of(part, heads) for part in (query.common, query.varying, key.varying, value.varying)
    )
    last = Scaled(q.mantissa[:, -1:], q.exponent)
    reference = plus(q_common, last)
    own = scaled(q.mantissa - q.mantissa[:, -1:], q.exponent)
    logits = Logits(
        reference=scaled(
            (reference.mantissa @ k.mantissa.swapaxes(1, 2))[:, 0] * scaling,
            reference.exponent + k.exponent,
        ),
        queries=times(own, scaling),
        keys=k,
    )
    varying, resolved = softmax_deviation(logits, v)
    if not resolved:
        raise Unresolved("tokens that share the attention coincide to the last bit.")
    weights = reference_offset(logits)
    shared = scaled(weights.mantissa[:, None, :] @ v.mantissa, weights.exponent + v.exponent)
    common = plus(heads_of(value.common, heads), shared)
    return outward(common, varying)


def heads_of(part: Scaled, heads: int) -> Scaled:
    """[head, token, width], key heads repeated for the query heads that share them."""
    array = part.mantissa[0]
    return Scaled(np.repeat(array, heads // len(array), axis=0), part.exponent)


def outward(common: Scaled, varying: Scaled) -> SplitTensor:
    """From [head, token, width] to [batch, token, head, width]."""
    return centred(turned(common), turned(varying), axis=1)


def turned(part: Scaled) -> Scaled:
    return Scaled(part.mantissa.swapaxes(0, 1)[None], part.exponent)


def given_attention(given: Arguments, query: Any, key: Any, value: SplitTensor) -> SplitTensor:
    """1c^T + P V with P from the model's own function."""
    mantissa = torch.from_numpy(np.ascontiguousarray(value.varying.mantissa))
    output, weights = own_attention(given, query, key, mantissa)
    short = float((weights.sum(dim=-1) - 1.0).abs().max())
    if not short < CLOSE:
        raise InputError(
            f"--exact needs attention whose rows sum to one, and {type(given.module).__name__} misses that by "
            f"{short:.1g}: leave --exact out."
        )
    varying = scaled(output.numpy(), value.varying.exponent)
    common = heads_of(value.common, query.shape[1])
    result = centred(turned(common), varying, axis=1)
    if result.varying.exponent < value.varying.exponent - RESOLVED_BITS:
        raise Unresolved("the rows of the attention coincide to the last bit.")
    return result


def compare(
    output: SplitTensor, given: Arguments, query: SplitTensor, key: SplitTensor, value: SplitTensor
) -> None:
    """That this is what the model's own attention computes, as long as its plain numbers can tell."""
    if output.varying.exponent - output.common.exponent < COMPARABLE:
        return
    ours = output.plain()
    own, _ = own_attention(given, query, key, value.plain())
    apart = float((own - ours).abs().max() / own.abs().max())
    if not apart < CLOSE:
        raise InputError(
            f"--exact does not understand the attention of {type(given.module).__name__} (it differs by {apart:.1g}): "
            "leave --exact out."
        )


def own_attention(given: Arguments, query: Any, key: Any, value: Tensor) -> tuple[Tensor, Tensor]:
    """Output and weights of the model's own eager function on plain numbers."""
    with in_float64():
        return own_eager(given.module)(
            given.module,
            numbers(query),
            numbers(key),
            value,
            given.mask,
            scaling=given.scaling,
            **given.keywords,
        )


def numbers(x: Any) -> Tensor:
    tensor: Tensor = x.plain() if isinstance(x, SplitTensor) else x
    return tensor
