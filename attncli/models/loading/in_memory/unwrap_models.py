"""Unwrap a model in training: remove distributed wrappers, compiled modules and adapters."""

from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.nn.parallel import DataParallel, DistributedDataParallel
from transformers import PreTrainedModel

from attncli.capture.model_structure.modules_outside_transformers import wrap_custom_module
from attncli.errors import UsageError
from attncli.models.loading.loaded_model import remove_model_head


class UnwrappedModel(NamedTuple):
    """A model in training, without its wrappers."""

    model: nn.Module
    """The model of transformers, or the user's module."""
    body: nn.Module
    """The module that is run: without its head (whole where parameters are sharded), or a ForeignModule."""
    step_module: nn.Module
    """The module whose calls are the training's own: the compiled one where there is one."""
    compiled: bool

    @property
    def transformers_model(self) -> PreTrainedModel | None:
        return self.model if isinstance(self.model, PreTrainedModel) else None


def unwrap_model(module: nn.Module) -> UnwrappedModel:
    """Unwrap DDP, DataParallel, torch.compile and PEFT, in any order."""
    if not isinstance(module, nn.Module):
        raise UsageError(f"`model` must be a module in training, not {module!r:.80}.")
    stepped: nn.Module | None = None
    root: Any = None
    inner: Any = module
    while True:
        refuse_unsupported_sharding(inner)
        if root is None and isinstance(inner, FSDPModule):
            root = inner
        if isinstance(inner, DistributedDataParallel | DataParallel):
            inner = inner.module
        elif hasattr(inner, "_orig_mod"):
            stepped = inner if stepped is None else stepped
            inner = inner._orig_mod
        elif hasattr(inner, "peft_config") and hasattr(inner, "get_base_model"):
            inner = unwrap_adapter(inner)
        else:
            break
    refuse_missing_weights(inner)
    if stepped is None and getattr(inner, "_compiled_call_impl", None) is not None:
        stepped = inner
    bare = (
        remove_model_head(inner)
        if isinstance(inner, PreTrainedModel)
        else wrap_custom_module(inner)
    )
    parts = any(isinstance(each, FSDPModule) for each in inner.modules())
    body = (inner if root is None else root) if parts else bare
    return UnwrappedModel(inner, body, inner if stepped is None else stepped, stepped is not None)


def refuse_missing_weights(module: nn.Module) -> None:
    """Refuse weights that were never made or are offloaded, and code that only torch can run (TorchScript)."""
    name = type(module).__name__
    for path, each in module.named_modules():
        if isinstance(each, torch.jit.ScriptModule):
            part = f"{path} of this {name}" if path else f"this {name}"
            raise UsageError(
                f"{part} is TorchScript, whose code runs outside of Python, where nothing is seen: give the module that it was made "
                "of."
            )
    for each, tensor in module.named_parameters():
        if isinstance(tensor, nn.UninitializedParameter):
            raise UsageError(
                f"{each} of this {name} has no size yet (a lazy module): run the module once before."
            )
        if tensor.is_meta:
            raise UsageError(
                f"{each} of this {name} is on torch's meta device, where tensors have no numbers: build or load the model "
                "with its weights in memory, or give the folder of a checkpoint."
            )


def unwrap_adapter(wrapper: Any) -> nn.Module:
    """Unwrap a PEFT adapter; virtual tokens change the model's input, not the model."""
    kinds = getattr(wrapper, "peft_config", {}).values()
    if any(getattr(kind, "is_prompt_learning", False) for kind in kinds):
        raise UsageError(
            "adapters that learn a prompt put tokens before every text: what the model attends to with them is not "
            "understood."
        )
    return cast(nn.Module, wrapper.get_base_model())


def refuse_unsupported_sharding(module: nn.Module) -> None:
    """Refuse ways of sharding whose parts are not gathered when a single module is run."""
    if isinstance(module, FullyShardedDataParallel):
        raise UsageError(
            "a model under FSDP 1 cannot be watched: use FSDP 2 (`fully_shard`, or `fsdp_version: 2` of accelerate)."
        )
    if any(hasattr(parameter, "ds_id") for parameter in module.parameters()):
        raise UsageError("a model under DeepSpeed ZeRO-3 cannot be watched: use ZeRO-2, or FSDP 2.")
