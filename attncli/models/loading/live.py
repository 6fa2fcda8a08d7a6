"""A module that lives in the caller's own process, measured in place and left as it was.

Nothing is copied: while a question is answered the module is put in evaluation mode, without gradients, its weights
perhaps in another type; afterwards every tensor, flag, config and random state is the caller's own again, also where
the question ended in an error.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from attncli.errors import UsageError, with_article
from attncli.models.files.whole_weights import state_sha256
from attncli.models.loading.precision import dtype_name
from attncli.watching.stacks.held_modules import HeldModule, held


@dataclass(frozen=True, eq=False)
class LiveModel:
    """What stands in the place of SOURCE where the model is at hand."""

    model: PreTrainedModel | HeldModule
    tokenizer: Any = None
    """Of transformers, for texts."""
    inputs: Any = None
    """What it is to read, as the caller has given it."""

    def __str__(self) -> str:
        return f"this {type(self.model).__name__}"

    def identity(self) -> dict[str, Any]:
        """For the report."""
        model = self.model
        return {
            "kind": "live",
            "name": getattr(model, "name_or_path", "") or type(model).__name__,
            **self.of_transformers(),
            "class": type(model).__name__,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "dtype": dtype_name(model.dtype),
            "device": str(model.device),
            "weight_sha256": state_sha256(str(self), stored_state(model)),
        }

    def of_transformers(self) -> dict[str, str]:
        """What only its models have."""
        return {} if isinstance(self.model, HeldModule) else {"model_type": self.model.config.model_type}  # fmt: skip


def stored_state(model: nn.Module) -> dict[str, torch.Tensor]:
    """What a checkpoint of the model would hold: weights that are tied to others are not written twice."""
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}


def live_model(
    module: object, tokenizer: Any = None, inputs: Any = None, own: bool = False
) -> LiveModel:
    """A model of transformers; with `own` any module, where its inputs are given."""
    if isinstance(module, PreTrainedModel):
        return LiveModel(module, tokenizer, inputs)
    name = type(module).__name__
    if not isinstance(module, nn.Module) or not own:
        others = "; `inspect_model` takes any module of torch" * isinstance(module, nn.Module)
        raise UsageError(
            f"{with_article(name)} is no model that is understood: give a model of transformers, the name of one, or the folder of "
            f"a checkpoint{others}."
        )
    if inputs is None:
        raise UsageError(
            f"{with_article(name)} is no model of transformers, so what it reads is not known: give `inputs`, the arguments of its "
            "forward."
        )
    return LiveModel(held(module), None, inputs)


def in_dtype(model: nn.Module, dtype: torch.dtype) -> None:
    """Floating parameters and buffers in another type; within `left_as_it_was` alone, which brings them back."""
    with torch.no_grad():
        for tensor in tensors_of(model):
            if tensor.is_floating_point() and tensor.dtype != dtype:
                tensor.data = tensor.data.to(dtype)


def tensors_of(model: nn.Module) -> Iterator[torch.Tensor]:
    yield from model.parameters()
    yield from model.buffers()


@contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Whatever happens inside, the module and torch's random state are the same afterwards."""
    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(cuda_devices(model)))
        for tensor in tensors_of(model):
            stack.callback(put_back, tensor, tensor.data, tensor.grad, tensor.requires_grad)
            tensor.grad = None  # a gradient must have the type of its tensor at every moment
        stack.enter_context(modules_as_they_were(model))
        for module in model.modules():
            config = getattr(module, "config", None)
            if config is not None:
                stack.callback(restore, config, dict(vars(config)))
        yield


@contextmanager
def modules_as_they_were(model: nn.Module) -> Iterator[None]:
    """Attributes, mode and parts of every module: some take other parts where a text is short (BigBird), or note how long
    the longest was."""
    before = [(module, dict(vars(module)), dict(module._modules)) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes, parts in before:
            restore(module, attributes)
            module._modules.clear()
            module._modules.update(parts)


def put_back(
    tensor: torch.Tensor, data: torch.Tensor, grad: torch.Tensor | None, asks: bool
) -> None:
    tensor.data = data
    tensor.requires_grad_(asks)
    tensor.grad = grad


def restore(config: Any, attributes: dict[str, Any]) -> None:
    """Own attributes as they were, none more and none less."""
    vars(config).clear()
    vars(config).update(attributes)


def cuda_devices(model: nn.Module) -> list[int]:
    """Whose random states a forward pass could move."""
    return sorted({t.device.index or 0 for t in tensors_of(model) if t.device.type == "cuda"})
