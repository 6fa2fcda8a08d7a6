"""Models on several devices: spread by accelerate, or split over processes by transformers."""

import tempfile
from functools import cache

from transformers import PreTrainedModel

from attncli.errors import InputError, LimitError
from attncli.forward_argument_types import Kwargs


def build_placement_arguments(
    blank: PreTrainedModel, device_map: str | None, tensor_parallel: bool
) -> Kwargs:
    """Arguments of `from_pretrained` that place the model on devices."""
    if tensor_parallel:
        from attncli.models.loading.tensor_parallel import build_tensor_parallel_arguments

        return build_tensor_parallel_arguments(blank)
    return (
        {"device_map": device_map, "offload_folder": make_offload_folder().name}
        if device_map
        else {}
    )


@cache
def make_offload_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for weights that fit neither device nor memory; it is removed with the process."""
    return tempfile.TemporaryDirectory(prefix="attn-offload-")


def find_devices_of_spread_model(model: PreTrainedModel) -> set[str]:
    """The devices that accelerate has spread the model over; empty where it lies on one."""
    found = {str(place) for place in (getattr(model, "hf_device_map", None) or {}).values()}
    return found if len(found) > 1 or "disk" in found else set()


def refuse_model_on_meta_device(model: PreTrainedModel) -> None:
    """Refuse a model without a device for its inputs: texts go to where the model begins."""
    if model.device.type == "meta":
        raise LimitError(
            "`device_map`: not even the first layer of the model fits a device or the memory: "
            "choose a narrower `dtype` or a larger machine."
        )


def require_model_on_one_device(model: PreTrainedModel, what: str) -> None:
    """Refuse a spread model where weights are read directly, not by the model's own call that fetches them."""
    spread = find_devices_of_spread_model(model)
    if spread:
        raise InputError(
            f"{what} needs the model on one device, and `device_map` has distributed it over {', '.join(sorted(spread))}: "
            "choose one with `device`, or a narrower `dtype`."
        )
