"""Attention maps that the caller has, measured as a model's own are."""

from collections.abc import Iterable, Sequence
from typing import Any

from attncli.api.answers import Answer, answer
from attncli.errors import UsageError
from attncli.reports.provenance import with_provenance

HERE = "these maps"
"""What they are called in a report."""


def measure(
    maps: Any,
    metrics: str | Iterable[str] = (),
    labels: Sequence[str] | None = None,
    pairs: int = 0,
    batch: int | None = None,
) -> Answer:
    """What attention maps show: numpy or torch arrays, such as the `attentions` of a model's output.

    `maps`: [query, key], [head, query, key], [layer, head, query, key] or [layer, batch, head, query, key], or for each
    layer one [query, key], [head, query, key] or [batch, head, query, key]; `batch`: which text, where there are several.
    `metrics`: names or groups of `attn list attention-metrics`, by default those that tell the heads' roles; `labels`: the
    tokens along both sides; `pairs`: how many of each head's strongest query → key pairs are told. Keys are taken for
    hidden where no head of a layer looks ahead.
    """
    from attncli.models.loading.surroundings import in_turn
    from attncli.stored.held import HeldArrays, as_array, named_arrays
    from attncli.studies.heads.head_metrics import choose
    from attncli.studies.heads.model_heads import HeadPlan
    from attncli.studies.heads.saved_maps import inspect_maps, small_maps_of
    from attncli.watching.saved.foreign_maps import SHAPES, OwnMaps
    from attncli.watching.saved.map_files import MapFile

    names = [metrics] if isinstance(metrics, str) else list(metrics)
    chosen = choose([part.strip() for name in names for part in name.split(",")], pairs)
    if isinstance(maps, str) or not (hasattr(maps, "shape") or isinstance(maps, Iterable)):
        raise UsageError(
            f"`maps` must be arrays, not {maps!r:.80}: {SHAPES}; of a file ask attn.inspect_model(FILE)."
        )
    arrays = {name: as_array(each, f"`maps` {name}") for name, each in named_arrays(maps)}
    file = MapFile(HERE, OwnMaps(HeldArrays(HERE, arrays, {}), batch), labels)
    plan = HeadPlan(chosen)
    with in_turn():
        report = inspect_maps(file, plan, small=small_maps_of(file, plan))
    return answer(with_provenance(report, ["attncli.measure(…)"]))
