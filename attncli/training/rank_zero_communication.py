"""Agree between the processes that train one model; in a single process, these functions do
nothing."""

from typing import Any, TypeVar

import torch.distributed as several

from attncli.distributed_ranks import read_launch_environment

T = TypeVar("T")


def is_distributed() -> bool:
    return several.is_available() and several.is_initialized() and several.get_world_size() > 1


def is_rank_zero() -> bool:
    """Whether this process writes and prints."""
    return several.get_rank() == 0 if is_distributed() else read_launch_environment().is_rank_zero


def broadcast_from_rank_zero(value: T) -> T:
    """Broadcast the first process's value; all processes must call it at the same point."""
    if not is_distributed():
        return value
    box = [value]
    several.broadcast_object_list(box, src=0)
    return box[0]


def gather_from_all_ranks(values: list[T]) -> list[T]:
    """Concatenate the lists of all processes."""
    if not is_distributed():
        return values
    boxes: list[Any] = [None] * several.get_world_size()
    several.all_gather_object(boxes, values)
    return [value for box in boxes for value in box]
