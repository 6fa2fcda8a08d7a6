"""Functions that change the stream in place: the numbers of the out-of-place function, written to the same tensor.

Every alias of a changed stream must show the change; where a view of another shape still refers to the numbers, the
change is refused.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from attncli.forward_argument_types import Function, Output
from attncli.tensor_subclasses.residual_split.lazy_attention_scores import (
    SCORE_RULES,
    LazyScores,
    materialize_if_deferred,
)
from attncli.tensor_subclasses.residual_split.split_tensor import (
    RULES,
    SplitTensor,
    convert_split_to_plain,
    rule,
)

CHANGES: dict[Function, Function] = {
    Tensor.add_: torch.add,
    Tensor.__iadd__: torch.add,
    Tensor.sub_: torch.sub,
    Tensor.__isub__: torch.sub,
    Tensor.mul_: torch.mul,
    Tensor.__imul__: torch.mul,
    Tensor.div_: torch.div,
    Tensor.__itruediv__: torch.div,
    Tensor.masked_fill_: Tensor.masked_fill,
    Tensor.clamp_: torch.clamp,
    torch.relu_: torch.relu,
    Tensor.relu_: torch.relu,
    torch.sigmoid_: torch.sigmoid,
    Tensor.sigmoid_: torch.sigmoid,
    torch.tanh_: torch.tanh,
    Tensor.tanh_: torch.tanh,
}
"""Each in-place function with its out-of-place counterpart."""


def write_result_in_place(written: Function, x: Tensor, *args: Any, **kwargs: Any) -> Output:
    """Write the function's result to x itself; plain numbers stay plain."""
    if isinstance(x, (SplitTensor, LazyScores)):
        return x.overwrite_with_result(CHANGES[written](x, *args, **kwargs), written.__name__)
    numbers: Any = written(
        convert_split_to_plain(materialize_if_deferred(x)),
        *map(convert_split_to_plain, map(materialize_if_deferred, args)),
        **kwargs,
    )
    return numbers


for written in CHANGES:
    RULES[written] = SCORE_RULES[written] = partial(write_result_in_place, written)


@rule(Tensor.copy_)
def copy_in_place(x: Any, source: Any, *_: object) -> Output:
    """tensor.copy_(source): replaces values, keeps identity and views."""
    if not isinstance(x, SplitTensor):
        return x.copy_(source.to_plain_tensor())
    if isinstance(source, SplitTensor):
        return x.overwrite_with_result(
            SplitTensor(source.common, source.varying, source.axis), "copy_"
        )
    return x.overwrite_with_result(torch.add(torch.mul(x, 0.0), source), "copy_")
