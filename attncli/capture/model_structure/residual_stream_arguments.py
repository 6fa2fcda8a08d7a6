"""Find and replace the residual stream in a block's arguments and results: the first tensor of each.

A two-stream block (XLNet's, with a query stream and a content stream) takes and returns a second one right after.
"""

from collections.abc import Mapping
from itertools import islice

import torch

from attncli.capture.attention_calls import iter_tensors
from attncli.forward_types import Args, Kwargs, Output


def find_stream_input(args: Args, kwargs: Kwargs) -> torch.Tensor | None:
    """The tensor argument that is the block's residual stream."""
    place = stream_input_position(args, kwargs)
    if place is None:
        return None
    found: torch.Tensor = args[place] if isinstance(place, int) else kwargs[place]
    return found


def stream_input_position(args: Args, kwargs: Kwargs) -> int | str | None:
    """Position or keyword of the residual stream: the first floating tensor, `hidden_states` first among the keywords."""
    for position, value in enumerate(args):
        if is_stream(value):
            return position
    if is_stream(kwargs.get("hidden_states")):
        return "hidden_states"
    return next((name for name, value in kwargs.items() if is_stream(value)), None)


def replace_argument(
    args: Args, kwargs: Kwargs, old: torch.Tensor, new: torch.Tensor
) -> tuple[Args, Kwargs]:
    """Replace a tensor in the arguments wherever it occurs: some blocks take their stream as query, key and value."""
    return (
        tuple(new if value is old else value for value in args),
        {name: new if value is old else value for name, value in kwargs.items()},
    )


def find_stream_output(output: Output) -> torch.Tensor | None:
    """The tensor that a block returns as its residual stream: its whole output, or the first tensor of it."""
    if isinstance(output, Mapping):
        output = tuple(output.values())
    if isinstance(output, list | tuple):
        return next((value for value in output if is_stream(value)), None)
    return output if is_stream(output) else None


def replace_output(output: Output, old: torch.Tensor, new: torch.Tensor) -> Output:
    """Replace one tensor in a block's output."""
    if isinstance(output, Mapping):
        changed = {name: replace_output(value, old, new) for name, value in output.items()}
        return type(output)(**changed)
    if type(output) in (list, tuple):
        return type(output)(replace_output(value, old, new) for value in output)
    return new if output is old else output


def find_second_stream_tensor(values: object) -> torch.Tensor | None:
    """The possible second stream among a block's arguments or results: the tensor after the first, if as wide."""
    if not isinstance(values, tuple) or len(values) < 2 or not all(map(is_stream, values[:2])):
        return None
    first, second = values[:2]
    alike = first.ndim == second.ndim and first.shape[-1] == second.shape[-1]
    return second if alike else None


def select_tensor_at(place: int, values: object) -> torch.Tensor | None:
    """The tensor at a position among all that a block takes or returns."""
    return next(islice(iter_tensors(values), place, None), None)


def is_stream(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim >= 2
