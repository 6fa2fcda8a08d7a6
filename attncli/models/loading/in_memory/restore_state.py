"""Record the state of a model before forward passes, and restore it afterwards.

A forward pass may do more than compute: it installs hooks when hidden states are first requested, computes rotary angles
anew where a text is long, counts its calls, takes other parts where a text is short, or scales rows of an embedding. Nothing
is moved or copied but buffers and such embeddings.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attncli.models.loading.isolate_global_state import replace_inference_tensors

PutBack = Callable[[], None]

MAPPINGS = (dict, OrderedDict, defaultdict)
SEQUENCES = (list, deque)
"""Containers whose contents are restored in place, by these types' own methods; other types may do more on `clear`."""


@contextmanager
def restore_model_state(model: nn.Module) -> Iterator[None]:
    """Restore attributes, mode, hooks, submodules, buffers and configs of every module, and torch's random state."""
    with ExitStack() as undone:
        undone.enter_context(torch.random.fork_rng(list_cuda_devices_of_model(model)))
        # tensors made in inference mode have no version counter that shows a write
        undone.enter_context(replace_inference_tensors(model))
        for put_back in reversed([*record_model_state(model)]):
            undone.callback(put_back)
        yield


def record_model_state(model: nn.Module) -> Iterator[PutBack]:
    """Record what is restored, in this order: attributes, the contents of their containers, then numbers."""
    modules = list(model.modules())
    configs = (getattr(module, "config", None) for module in modules)
    owners = [*modules, *(each for each in configs if has_attribute_dict(each))]
    for owner in {id(each): each for each in owners}.values():
        yield from record_module_attributes(owner)
    tensors = [
        each
        for module in modules
        for each in (*module._buffers.values(), *iter_embeddings_with_max_norm(module))
    ]
    for tensor in {id(each): each for each in tensors if each is not None}.values():
        yield partial(restore_tensor_if_changed, tensor, tensor._version, tensor.detach().clone())


def list_cuda_devices_of_model(model: nn.Module) -> list[int]:
    """CUDA devices whose random state a forward pass could advance."""
    return sorted(
        {t.device.index or 0 for t in iter_parameters_and_buffers(model) if t.device.type == "cuda"}
    )


def iter_parameters_and_buffers(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def has_attribute_dict(config: object) -> bool:
    return isinstance(getattr(config, "__dict__", None), dict)


def record_module_attributes(owner: Any) -> Iterator[PutBack]:
    """Record a module's own attributes and the contents of lists and dicts among them.

    Whether parameters are whole or in parts (FSDP) is for those to put back who have divided them.
    """
    before = dict(vars(owner))
    yield partial(restore_dict_contents, vars(owner), before)
    for name, value in before.items():
        if name == "_parameters" and isinstance(owner, nn.Module):
            continue
        if type(value) in MAPPINGS:
            yield partial(restore_dict_contents, value, dict(value))
        elif type(value) in SEQUENCES:
            yield partial(restore_list_contents, value, list(value))
        elif type(value) is set:
            yield partial(restore_set_contents, value, set(value))


def restore_dict_contents(table: dict[Any, Any], before: dict[Any, Any]) -> None:
    same = list(table) == list(before) and all(table[name] is before[name] for name in before)
    if not same:
        table.clear()
        table.update(before)


def restore_list_contents(values: Any, before: list[Any]) -> None:
    same = len(values) == len(before) and all(a is b for a, b in zip(values, before, strict=True))
    if not same:
        values.clear()
        values.extend(before)


def restore_set_contents(values: set[object], before: set[object]) -> None:
    if values != before:
        values.clear()
        values.update(before)


def iter_embeddings_with_max_norm(module: nn.Module) -> Iterator[Tensor]:
    """Iterate over weights that a forward pass changes: embeddings with `max_norm`, which rescale their rows."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.max_norm is not None:
        yield module.weight


def restore_tensor_if_changed(tensor: Tensor, version: int, numbers: Tensor) -> None:
    """Restore numbers only where they may have changed: autograd refuses a backward pass through tensors written to since."""
    if tensor._version != version:
        with torch.no_grad():
            tensor.copy_(numbers)
