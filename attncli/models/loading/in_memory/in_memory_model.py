"""A module in the caller's own process, measured in place and restored afterwards.

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
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attncli.capture.model_structure.modules_outside_transformers import (
    ForeignModule,
    wrap_custom_module,
)
from attncli.errors import InputError, UsageError, add_article
from attncli.models.files.state_dict_hashing import hash_state_dict
from attncli.models.loading.in_memory.restore_state import (
    iter_parameters_and_buffers,
    restore_model_state,
)
from attncli.models.loading.in_memory.unwrap_models import unwrap_model
from attncli.models.precision import format_dtype
from attncli.records import JsonObject

QUANTISED = "bitsandbytes"
"""The library whose tensors hold packed numbers instead of weights."""


@dataclass(frozen=True, eq=False)
class InMemoryModel:
    """A module in the caller's process, given instead of SOURCE."""

    model: PreTrainedModel | ForeignModule
    tokenizer: PreTrainedTokenizerBase | None = None
    """A tokenizer of transformers, for texts."""
    inputs: Any = None
    """The inputs as the user gave them."""

    def __str__(self) -> str:
        return f"this {type(self.model).__name__}"

    def describe_in_memory_model(self) -> JsonObject:
        """Describe the module for the report."""
        model = self.model
        return {
            "kind": "live",
            "name": getattr(model, "name_or_path", "") or type(model).__name__,
            **self.describe_model_type(),
            "class": type(model).__name__,
            "parameters": sum(weight.numel() for weight in model.parameters()),
            "dtype": format_dtype(model.dtype),
            "device": str(model.device),
            "weight_sha256": hash_state_dict(str(self), build_checkpoint_state_dict(model)),
        }

    def describe_model_type(self) -> dict[str, str]:
        """The model type, if it is one of transformers."""
        return (
            {}
            if isinstance(self.model, ForeignModule)
            else {"model_type": self.model.config.model_type}
        )


def build_checkpoint_state_dict(model: nn.Module) -> dict[str, torch.Tensor]:
    """The state dict as a checkpoint would have it: tied weights appear once."""
    tied = getattr(model, "all_tied_weights_keys", None) or {}
    return {name: tensor for name, tensor in model.state_dict().items() if name not in tied}


def rename_state_dict_to_saved_names(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    """The state dict under the names that a checkpoint has for them, which newer code may have changed.

    Of fused experts a checkpoint holds the parts, which would be copies: they stay as they are.
    """
    from transformers.core_model_loading import revert_weight_conversion

    state = build_checkpoint_state_dict(model)
    fused = {name: tensor for name, tensor in state.items() if tensor.ndim > 2}
    others = {name: tensor for name, tensor in state.items() if name not in fused}
    return {**fused, **revert_weight_conversion(model, others)}


def wrap_in_memory_model(
    module: object,
    tokenizer: PreTrainedTokenizerBase | None = None,
    inputs: Any = None,
    own: bool = False,
) -> InMemoryModel:
    """Wrap a model of transformers, unwrapped first; `own` allows any module whose inputs are given."""
    inner = unwrap_model(module).model if isinstance(module, nn.Module) else module
    if isinstance(inner, nn.Module):
        refuse_sharded_weights(inner)
        refuse_quantised_layers(inner)
    if isinstance(inner, PreTrainedModel):
        return InMemoryModel(inner, tokenizer, inputs)
    name = type(inner).__name__
    if not isinstance(inner, nn.Module) or not own:
        others = "; `inspect_model` takes any module of torch" * isinstance(inner, nn.Module)
        raise UsageError(
            f"{add_article(name)} is no model that is understood: give a model of transformers, the name of one, or the folder of "
            f"a checkpoint{others}."
        )
    if inputs is None:
        raise UsageError(
            f"{add_article(name)} is no model of transformers, so what it reads is not known: give `inputs`, the arguments of its "
            "forward."
        )
    return InMemoryModel(wrap_custom_module(inner), None, inputs)


def refuse_sharded_weights(module: nn.Module) -> None:
    """Refuse weights that are sharded over several processes."""
    name = type(module).__name__
    if any(isinstance(each, FSDPModule) for each in module.modules()):
        raise UsageError(
            f"the weights of this {name} lie in parts on several processes (FSDP): save a checkpoint and ask that, or "
            "watch the training with attncli.Monitor."
        )


def refuse_quantised_layers(module: nn.Module) -> None:
    """Refuse layers that unpack their weights as they run, and mix tokens where they pick columns over all of them."""
    name = type(module).__name__
    for path, each in module.named_modules():
        if QUANTISED in {kind.__module__.partition(".")[0] for kind in list_weight_classes(each)}:
            part = f"{path} of this {name}" if path else f"this {name}"
            raise InputError(
                f"{part} is quantised ({QUANTISED}'s {type(each).__name__}), which is not read: call dequantize() of the model before "
                "its first forward pass, which may repack the weights, or load the unquantised checkpoint."
            )


def list_weight_classes(module: nn.Module) -> set[type]:
    """The classes of a layer's weights: a quantising library also has plain layers of its own."""
    return {type(weight) for weight in module.parameters(recurse=False)}


@contextmanager
def restore_in_memory_model(model: nn.Module) -> Iterator[None]:
    """Restore the module and torch's random state afterwards, also after an error."""
    with ExitStack() as stack:
        stack.enter_context(restore_model_state(model))
        for tensor in iter_parameters_and_buffers(model):
            stack.callback(
                restore_tensor_and_gradient, tensor, tensor.data, tensor.grad, tensor.requires_grad
            )
            tensor.grad = None  # a gradient must have the type of its tensor at every moment
        yield


def restore_tensor_and_gradient(
    tensor: torch.Tensor, data: torch.Tensor, grad: torch.Tensor | None, asks: bool
) -> None:
    tensor.data = data
    tensor.requires_grad_(asks)
    tensor.grad = grad
