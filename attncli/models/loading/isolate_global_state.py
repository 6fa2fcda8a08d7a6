"""Isolate a model's run from the caller's global torch state: own precision, plain tensors, libraries silent.

Patches made during capture affect the whole process, so runs of models wait for one another.
"""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import nn

from attncli.blas_threads_and_lock import TURNS
from attncli.models.quiet_libraries import silence_libraries

DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "maia", "ipu", "xla", "privateuseone")
"""Device types that autocast knows, whether this machine has them or not."""


def isolate_run_in_process() -> None:
    """Run alone in this process, with neutral global state."""
    turn = TURNS.acquire_lock_until_scope_ends()
    if turn is not None:
        turn.enter_context(use_default_torch_global_state())


@contextmanager
def take_measurement_lock() -> Iterator[None]:
    """Take the lock for a measurement between training steps: as its own turn, or within the one that is open."""
    if TURNS.holder is not None:
        yield
        return
    with TURNS.open_measurement_scope():
        isolate_run_in_process()
        yield


@contextmanager
def use_default_torch_global_state() -> Iterator[None]:
    """No autocast, no inference mode, no compiled code; torch's own default type and device; libraries say nothing."""
    before = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.enter_context(silence_libraries())
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
        stack.enter_context(disable_autocast())
        stack.enter_context(disable_compiler())
        if torch.get_default_device() != torch.device("cpu"):
            stack.enter_context(torch.device("cpu"))
        stack.callback(torch.set_default_dtype, before)
        torch.set_default_dtype(torch.float32)
        yield


@contextmanager
def disable_autocast() -> Iterator[None]:
    """Turn autocast off on all device types."""
    with ExitStack() as stack:
        for device in DEVICES:
            if is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        yield


def is_autocast_enabled(device: str) -> bool:
    try:
        return torch.is_autocast_enabled(device)
    except RuntimeError:  # a device type that this torch does not know
        return False


def disable_compiler() -> AbstractContextManager[Any]:
    """Run modules without torch.compile; where nothing was compiled, the compiler is not even loaded."""
    loaded = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if loaded else nullcontext()


@contextmanager
def replace_inference_tensors(model: nn.Module) -> Iterator[None]:
    """Replace weights made in inference mode, which allow neither writes nor gradients outside it, by copies that do."""
    with ExitStack() as stack:
        copies: dict[torch.Tensor, torch.Tensor] = {}
        for module in model.modules():
            both: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
            for guard in both:
                for name, tensor in guard.items():
                    if tensor is not None and tensor.is_inference():
                        stack.callback(guard.__setitem__, name, tensor)
                        if tensor not in copies:
                            copies[tensor] = copy_tensor_or_parameter(tensor)
                        guard[name] = copies[tensor]
        yield


def copy_tensor_or_parameter(tensor: Any) -> Any:
    """Copy a tensor; a parameter stays a parameter."""
    copy = tensor.detach().clone()
    is_parameter = isinstance(tensor, nn.Parameter)
    return nn.Parameter(copy, requires_grad=tensor.requires_grad) if is_parameter else copy
