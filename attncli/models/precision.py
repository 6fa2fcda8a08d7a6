"""The dtype and the device that a model runs in; a model converted to another dtype, as a checkpoint of that would be loaded."""

import importlib.util
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from attncli.capture.reruns.seed_and_precision import preserve_float64_precision
from attncli.errors import UsageError, quote_parameter_name
from attncli.models.files.state_dict_hashing import STORED_AS
from attncli.models.files.weight_hashing import FLOATS
from attncli.models.quiet_libraries import silence_libraries

STORED = {name: dtype for dtype, name in STORED_AS.items()}


def format_dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def choose_dtype(requested: str | None, stored: torch.dtype, device: torch.device) -> torch.dtype:
    """The requested dtype; else the file's own, but for float16 on a CPU, which is two to five times slower than float32."""
    chosen: torch.dtype = getattr(torch, requested) if requested is not None else stored
    if chosen == torch.float64 and device.type == "mps":
        raise UsageError(
            "mps has no float64: choose `dtype='float32'` or `device='cpu'`.",
            about=["dtype", "device"],
        )
    if requested is None and chosen == torch.float16 and device.type == "cpu":
        return torch.float32
    return chosen


def describe_dtype_change(
    requested: str | None, stored: torch.dtype, dtype: torch.dtype
) -> list[str]:
    """Describe a dtype that was not requested and takes more memory than the file's own."""
    if requested is not None or dtype.itemsize <= stored.itemsize:
        return []
    return [
        f"the weights are stored in {format_dtype(stored)} and run in {format_dtype(dtype)}, which takes "
        f"{dtype.itemsize // stored.itemsize} times the memory."
    ]


def find_common_dtype_of_weights(dtypes: Iterable[str]) -> torch.dtype:
    """The one floating dtype that holds every number of the files exactly; float32 if they hold none."""
    found = [STORED[dtype] for dtype in set(dtypes) & FLOATS.keys()]
    together = found[0] if found else torch.float32
    for dtype in found:
        together = torch.promote_types(together, dtype)
    return together


def parse_device(text: str) -> torch.device:
    """Parse a device name; refuse a device that this machine lacks."""
    try:
        device = torch.device(text)
    except RuntimeError:
        raise UsageError(
            f"`device={text!r}`: choose cpu, cuda, cuda:N or mps.", about=["device"]
        ) from None
    if device.type == "cpu" and not device.index:
        return torch.device("cpu")
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) < count:
            return device
        raise UsageError(
            f"`device={text!r}`: this machine has {count} CUDA devices: try `device='cpu'`.",
            about=["device"],
        )
    if device.type == "mps" and not device.index:
        if torch.backends.mps.is_available():
            return device
        raise UsageError(
            "`device='mps'`: this machine has none: try `device='cpu'`.", about=["device"]
        )
    raise UsageError(f"`device={text!r}`: choose cpu, cuda, cuda:N or mps.", about=["device"])


def require_accelerate(option: str) -> None:
    if importlib.util.find_spec("accelerate") is None:
        raise UsageError(
            f"{quote_parameter_name(option)} needs accelerate: pip install 'attncli[big]'."
        )


@contextmanager
def run_in_model_precision(body: nn.Module) -> Iterator[None]:
    """Keep a float64 model in float64, whatever its code casts to; suppress its warnings while it runs."""
    with silence_libraries(), preserve_float64_precision(body):
        yield


def cast_model_to_dtype(model: nn.Module, dtype: torch.dtype) -> None:
    """Cast a model in place. Indices and complex angles keep their dtype; non-persistent buffers (rotary angles) are never
    rounded to a short one."""
    with torch.no_grad():
        for module in model.modules():
            computed = module._non_persistent_buffers_set if dtype.itemsize < 4 else set()
            buffers = dict(module.named_buffers(recurse=False))
            cast = [tensor for name, tensor in buffers.items() if name not in computed]
            for tensor in (*module.parameters(recurse=False), *cast):
                if tensor.is_floating_point() and tensor.dtype != dtype:
                    tensor.data = tensor.data.to(dtype)
