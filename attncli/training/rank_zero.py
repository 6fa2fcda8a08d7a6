"""One answer of the processes that train one model together; alone, everything is as it is."""

from typing import Any, TypeVar

import torch.distributed as several

from attncli.ranks import launch

T = TypeVar("T")


def together() -> bool:
    return several.is_available() and several.is_initialized() and several.get_world_size() > 1


def is_first() -> bool:
    """Whether this process writes and speaks."""
    return several.get_rank() == 0 if together() else launch().first


def of_the_first(value: T) -> T:
    """What the first process says; all must ask at the same place."""
    if not together():
        return value
    box: list[Any] = [value]
    several.broadcast_object_list(box, src=0)
    return box[0]  # type: ignore[no-any-return]


def of_all(values: list[T]) -> list[T]:
    """What each process has, one after the other."""
    if not together():
        return values
    boxes: list[Any] = [None] * several.get_world_size()
    several.all_gather_object(boxes, values)
    return [value for box in boxes for value in box]
