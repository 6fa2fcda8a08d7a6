"""Attention maps that the caller has, measured as a model's own are."""

from collections.abc import Iterable, Sequence
from typing import Any

from attncli.api.answers import Answer, answer
from attncli.api.provenance import with_provenance
from attncli.errors import UsageError

SHAPES = (
    "[query, key], [head, query, key] or [layer, head, query, key], or one [head, query, key] or [1, head, query, key] "
    "for each layer, None where a layer has none"
)
AXES = {2: "query, key", 3: "head, query, key", 4: "layer, head, query, key"}


def measure(
    maps: Any,
    metrics: str | Iterable[str] = (),
    labels: Sequence[str] | None = None,
    pairs: int = 0,
) -> Answer:
    """What attention maps show: numpy or torch arrays, such as the `attentions` of a model's output.

    `maps`: [query, key], [head, query, key] or [layer, head, query, key], or one [head, query, key] or
    [1, head, query, key] for each layer. `metrics`: names or groups of `attn list attention-metrics`, by default those
    that tell the heads' roles; `labels`: the tokens along both sides; `pairs`: how many of each head's strongest
    query → key pairs are told. Keys are taken for hidden where no head of a
    layer looks ahead.
    """
    import json

    from attncli.stored.held import HeldArrays
    from attncli.studies.heads.head_metrics import choose
    from attncli.studies.heads.model_heads import HeadPlan
    from attncli.studies.heads.saved_maps import inspect_maps
    from attncli.watching.map_files import MapFile

    names = [metrics] if isinstance(metrics, str) else list(metrics)
    layers = layers_of(maps)
    metadata = {} if labels is None else {"tokens": json.dumps(list(map(str, labels)))}
    tensors = {f"layers.{layer}.attention": array for layer, array in layers.items()}
    file = MapFile("these maps", HeldArrays("these maps", tensors, metadata))
    chosen = choose([part.strip() for name in names for part in name.split(",")], pairs)
    report = inspect_maps(file, HeadPlan(chosen))
    return answer(with_provenance(report, ["attncli.measure(…)"]))


def layers_of(maps: Any) -> dict[int, Any]:
    """[head, query, key] by layer."""
    if hasattr(maps, "ndim") or hasattr(maps, "dim"):
        array = as_array(maps)
        if array.ndim not in AXES:
            raise refused(array.shape)
        whole = array.reshape((1,) * (4 - array.ndim) + array.shape)
        return dict(enumerate(whole))
    if isinstance(maps, str) or not isinstance(maps, Iterable):
        raise UsageError(f"`maps` must be arrays, not {maps!r:.80}: {SHAPES}.")
    arrays = {layer: as_array(each) for layer, each in enumerate(maps) if each is not None}
    if not arrays:
        raise UsageError(f"`maps` holds no map: give {SHAPES}.")
    return {layer: of_layer(array) for layer, array in arrays.items()}


def of_layer(array: Any) -> Any:
    if array.ndim == 4 and len(array) == 1:
        return array[0]
    if array.ndim != 3:
        raise refused(array.shape)
    return array


def refused(shape: tuple[int, ...]) -> UsageError:
    return UsageError(f"`maps` has the shape {list(shape)}, and what is read is {SHAPES}.")


def as_array(value: Any) -> Any:
    """As numpy holds it: tensors from any device, half precision in float32, lists of lists."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if value.element_size() < 4 and value.is_floating_point() else value
        value = value.numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise UsageError(f"`maps` holds {array.dtype} numbers: attention weights are real ones.")
    return array if array.dtype.name in ("float64", "float32", "float16") else array.astype(float)
