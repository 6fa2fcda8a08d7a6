"""One answer of the processes that train one model together; alone, everything is as it is."""

from typing import Any, TypeVar

import torch.distributed as several

from attncli.ranks import read_launch

T = TypeVar("T")


def is_distributed() -> bool:
    return several.is_available() and several.is_initialized() and several.get_world_size() > 1


def is_first() -> bool:
    """Whether this process writes and speaks."""
    return several.get_rank() == 0 if is_distributed() else read_launch().first


def broadcast_first(value: T) -> T:
    """What the first process says; all must ask at the same place."""
    if not is_distributed():
        return value
    box: list[Any] = [value]
    several.broadcast_object_list(box, src=0)
    return box[0]  # type: ignore[no-any-return]


def gather_all(values: list[T]) -> list[T]:
    """What each process has, one after the other."""
    if not is_distributed():
        return values
    boxes: list[Any] = [None] * several.get_world_size()
    several.all_gather_object(boxes, values)
    return [value for box in boxes for value in box]
