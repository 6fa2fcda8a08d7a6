"""Functions that change the stream in place: the same numbers as the function that does not, under the old name.

A stream that was changed must be seen as such by every alias of it; where a view of another shape still looks at the
numbers, the change is refused.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attncli.checkpoints.exact.scores import SCORE_RULES, Scores
from attncli.checkpoints.exact.tensor import RULES, SplitTensor, no_rule, rule

CHANGES: dict[Any, Callable[..., Any]] = {
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
"""Each with the function that gives the same and leaves its argument alone."""


def changed(name: str, function: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """x itself, with what the function gives."""
    if isinstance(x, (SplitTensor, Scores)):
        return x.become(function(x, *args, **kwargs), name)
    if name != "__iadd__" or x._base is not None or bool(x.any()):
        raise no_rule(f"{name}, which writes the stream into other numbers in place,")
    return function(x, *args, **kwargs)  # `sum += x`, begun with zeros: the name stands for the result from here on


for written, function in CHANGES.items():
    name = written.__name__

    def in_place(
        *args: Any, name: str = name, function: Callable[..., Any] = function, **kwargs: Any
    ) -> Any:
        return changed(name, function, *args, **kwargs)

    RULES[written] = SCORE_RULES[written] = in_place


@rule(Tensor.copy_)
def copy(x: Any, source: Any, *_: Any) -> Any:
    """Other numbers under the old name."""
    if not isinstance(x, SplitTensor):
        raise no_rule("copy_, which writes the stream into other numbers in place,")
    if isinstance(source, SplitTensor):
        return x.become(SplitTensor(source.common, source.varying, source.axis), "copy_")
    return x.become(torch.add(torch.mul(x, 0.0), source), "copy_")
