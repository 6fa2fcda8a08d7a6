"""What a model is made of, noted before somebody runs it and put back afterwards, whatever its code has changed of it.

A forward pass may do more than compute: it installs hooks when it is first asked for hidden states, computes rotary angles
anew where a text is long, counts its calls, takes other parts where a text is short, or scales rows of an embedding. Nothing
is moved or copied but buffers and such embeddings.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

PutBack = Callable[[], None]

MAPPINGS = (dict, OrderedDict, defaultdict)
SEQUENCES = (list, deque)
"""What is changed in place, and by these types' own methods; others may mean something else by clearing them."""


@contextmanager
def as_it_was(model: nn.Module) -> Iterator[None]:
    """Attributes, mode, hooks, parts, buffers and configurations of every module are the same afterwards."""
    undone = [each for module in model.modules() for each in notes_of(module)]
    try:
        yield
    finally:
        for put_back in undone:
            put_back()


def notes_of(module: nn.Module) -> Iterator[PutBack]:
    """In the order in which they are put back: the attributes, what these contain, and then the numbers."""
    yield from attributes_of(module)
    config = getattr(module, "config", None)
    if isinstance(getattr(config, "__dict__", None), dict) and not isinstance(config, nn.Module):
        yield from attributes_of(config)
    for tensor in (*module._buffers.values(), *rescaled(module)):
        if tensor is not None:
            yield partial(write_back, tensor, versions(tensor), tensor.detach().clone())


def attributes_of(owner: Any) -> Iterator[PutBack]:
    """Own attributes, none more and none less, and what lists and tables among them hold."""
    before = dict(vars(owner))
    yield partial(refill, vars(owner), before)
    for value in before.values():
        if type(value) in MAPPINGS:
            yield partial(refill, value, dict(value))
        elif type(value) in SEQUENCES:
            yield partial(refill_list, value, list(value))
        elif type(value) is set:
            yield partial(refill_set, value, set(value))


def refill(table: dict[Any, Any], before: dict[Any, Any]) -> None:
    same = list(table) == list(before) and all(table[name] is before[name] for name in before)
    if not same:
        table.clear()
        table.update(before)


def refill_list(values: Any, before: list[Any]) -> None:
    same = len(values) == len(before) and all(a is b for a, b in zip(values, before, strict=True))
    if not same:
        values.clear()
        values.extend(before)


def refill_set(values: set[Any], before: set[Any]) -> None:
    if values != before:
        values.clear()
        values.update(before)


def rescaled(module: nn.Module) -> Iterator[Tensor]:
    """Weights that a forward pass changes: rows of an embedding that are longer than it allows."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
        yield module.weight


def versions(tensor: Tensor) -> int:
    """How often it was written to; tensors of inference mode do not count, and are taken for changed."""
    return -1 if tensor.is_inference() else tensor._version


def write_back(tensor: Tensor, version: int, numbers: Tensor) -> None:
    """Only where they may have changed, for autograd refuses a backward pass through what was written to since."""
    if version < 0 or versions(tensor) != version:
        with torch.no_grad():
            tensor.copy_(numbers)
