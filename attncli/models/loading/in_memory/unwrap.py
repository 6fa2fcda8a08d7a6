"""A model as it is trained, out of what it is wrapped in: several processes, a compiler, adapters."""

from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
from torch.nn.parallel import DataParallel, DistributedDataParallel
from transformers import PreTrainedModel

from attncli.capture.stacks.foreign_modules import wrap_foreign_module
from attncli.errors import UsageError
from attncli.models.loading.body import body_of


class UnwrappedModel(NamedTuple):
    """What is watched of a model in training."""

    model: nn.Module
    """The model of transformers, or a module of the caller's own."""
    body: nn.Module
    """What is run to look at it: without its head, or held as a model if it is none of transformers; but whole where its
    parameters lie in parts on several processes."""
    stepped: nn.Module
    """Whose calls are the training's own: the compiled module where there is one."""
    compiled: bool

    @property
    def of_transformers(self) -> PreTrainedModel | None:
        return self.model if isinstance(self.model, PreTrainedModel) else None


def unwrap_model(module: nn.Module) -> UnwrappedModel:
    """Through DDP, DataParallel, torch.compile and PEFT, in any order."""
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
    bare = body_of(inner) if isinstance(inner, PreTrainedModel) else wrap_foreign_module(inner)
    parts = any(isinstance(each, FSDPModule) for each in inner.modules())
    body = (inner if root is None else root) if parts else bare
    return UnwrappedModel(inner, body, inner if stepped is None else stepped, stepped is not None)


def refuse_missing_weights(module: nn.Module) -> None:
    """Weights that are not here, as they were never made or are offloaded; and code that torch alone runs."""
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
            raise UsageError(f"{each} of this {name} has no size yet (a lazy module): run the module once before.")  # fmt: skip
        if tensor.is_meta:
            raise UsageError(
                f"{each} of this {name} is on torch's meta device, where tensors have no numbers: build or load the model "
                "with its weights in memory, or give the folder of a checkpoint."
            )


def unwrap_adapter(wrapper: Any) -> nn.Module:
    """The model that an adapter of PEFT has changed; virtual tokens are no change of a model but of its input."""
    kinds = getattr(wrapper, "peft_config", {}).values()
    if any(getattr(kind, "is_prompt_learning", False) for kind in kinds):
        raise UsageError(
            "adapters that learn a prompt put tokens before every text: what the model attends to with them is not "
            "understood."
        )
    return cast(nn.Module, wrapper.get_base_model())


def refuse_unsupported_sharding(module: nn.Module) -> None:
    """Ways to divide a model whose parts are not put together when a piece of it is run."""
    if isinstance(module, FullyShardedDataParallel):
        raise UsageError(
            "a model under FSDP 1 cannot be watched: use FSDP 2 (`fully_shard`, or `fsdp_version: 2` of accelerate)."
        )
    if any(hasattr(parameter, "ds_id") for parameter in module.parameters()):
        raise UsageError("a model under DeepSpeed ZeRO-3 cannot be watched: use ZeRO-2, or FSDP 2.")
