"""`attn inspect-weights MODEL`: what every head compares and moves, from its weights alone.

Nothing is run: tensors are read one head at a time, of a saved model from its safetensors files, without building it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from attncli.analysis.heads.head_selection import format_count_of_total
from attncli.analysis.means_and_confidence_intervals import summarize_values
from attncli.analysis.weight_sources import OpenedWeights, open_weights
from attncli.commands.inspect_weights.head_weight_findings import (
    build_head_weight_findings,
    format_head_weights_headline,
)
from attncli.errors import BelowResolution, UsageError, format_count, require_known_names
from attncli.head_weights.attention_kind_counts import AttentionLayerCounts, count_attention_kinds
from attncli.head_weights.qk_ov_products import NORMALISED, HeadProducts, iter_head_products
from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics.weights import SCALE_FREE, WEIGHTS
from attncli.model_and_file_sources import Source
from attncli.models.files.model_folder import NOTHING_TRUSTED, FetchSettings
from attncli.progress import Progress, ignore_progress
from attncli.records import NOT_APPLICABLE, Definition, JsonObject, Report, Row, View

NULL = "random weights"
"""The variant of the control rows: independent random weights."""
NULL_DRAWS = 8
"""Draws of independent Gaussian weights behind the null."""
AT_OFFSET_0 = "at offset 0: rotary positions turn queries against keys with their distance"

CENSUS = {
    "full_layers": Definition("layers", "Layers whose queries see all keys, or all keys before them."),
    "sliding_layers": Definition("layers", "Layers whose queries see a window of keys."),
    "linear_layers": Definition("layers", "Layers of linear attention or a state space: they have no map."),
    "grouping": Definition("heads", "Query heads that share one key head; 1 without grouped queries."),
    "qk_norm_layers": Definition("layers", "Layers that normalise queries and keys."),
    "sink_logit_layers": Definition("layers", "Layers with learned sink logits in their softmax."),
    "gated_layers": Definition("layers", "Layers with a gate in their attention."),
}  # fmt: skip
"""Numbers of the model from its config and tensor names."""


def build_weights_report(
    source: Source | str | Path,
    metrics: Sequence[str] = (),
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    progress: Progress = ignore_progress,
    how: FetchSettings = NOTHING_TRUSTED,
    seed: int = 0,
) -> Report:
    """The report; without metrics all of them, without layers and heads all that there are."""
    names = validate_weight_metrics(metrics)
    opened = open_weights(source, how, seed)
    config, tensors = opened.config, opened.tensors
    counts = count_attention_kinds(config.settings, tensors.places)
    chosen_layers = select_layer_or_head_indices("layer", layers, config.layer_count)
    chosen_heads = select_layer_or_head_indices("head", heads, config.head_count)
    rows: list[Row] = []
    total = len(chosen_layers) * len(chosen_heads)
    for done, products in enumerate(
        iter_head_products(tensors, config, chosen_layers, chosen_heads)
    ):
        progress(done, total, "heads")
        rows += build_weight_metric_rows_of_head(products, names, rotary=bool(config.family.rotary))
    progress(total, total, "heads")
    nulls = list(build_random_weight_rows(names, config.hidden_size, config.key_head_width))
    return Report(
        study="inspect-model weights",
        headline=format_head_weights_headline(
            config.model_type,
            format_count_of_total(total, config.layer_count * config.head_count),
            rows,
            nulls,
        ),
        rows=(*rows, *nulls, *build_attention_layer_count_rows(counts)),
        metrics={name: WEIGHTS.definition(name) for name in names} | CENSUS,
        source=describe_model_and_tensor_hash(opened, counts),
        input={"layers": chosen_layers, "heads": chosen_heads},
        views=tuple(build_head_weight_tables(names)),
        findings=tuple(build_head_weight_findings(rows, nulls, counts)),
        warnings=tuple(build_head_weight_warnings(opened)),
    )


def validate_weight_metrics(metrics: Sequence[str]) -> list[str]:
    """Known names, once each."""
    require_known_names(WEIGHTS.kind, metrics, WEIGHTS.names())
    return list(dict.fromkeys(metrics)) or WEIGHTS.names()


def select_layer_or_head_indices(
    what: str, requested: Sequence[int] | None, count: int
) -> list[int]:
    """The requested layers or heads, in order and without repeats; all if none are named."""
    if requested is None:
        return list(range(count))
    for index in requested:
        if not 0 <= index < count:
            raise UsageError(f"there is no {what} {index}: the model has {what}s 0 … {count - 1}.")
    return list(dict.fromkeys(requested))


def build_weight_metric_rows_of_head(
    products: HeadProducts, names: Sequence[str], rotary: bool
) -> Iterator[Row]:
    for name in names:
        spec, layer, head = WEIGHTS.declaration_of_entry(name), products.layer, products.head
        of_logits = spec.of == "qk"
        product = products.qk if of_logits else products.ov
        value, note = measure_weight_metric_or_explain(name, product)
        if value is not None and of_logits and rotary:
            note = AT_OFFSET_0
        yield Row(name, value, spec.unit, layer=layer, head=head, note=note)


def measure_weight_metric_or_explain(
    name: str, product: LowRankProduct | None
) -> tuple[float | None, str | None]:
    """Measure one metric: (number, None), or (None, reason)."""
    if product is None:
        return None, NOT_APPLICABLE + NORMALISED
    try:
        return WEIGHTS[name](product), None
    except BelowResolution as error:
        return None, NOT_APPLICABLE + str(error)


def build_random_weight_rows(names: Sequence[str], hidden: int, width: int) -> Iterator[Row]:
    """Control rows: independent Gaussian weights of the same sizes, for scale-free metrics."""
    draws = [sample_random_weight_product(seed, hidden, width) for seed in range(NULL_DRAWS)]
    for name in names:
        found = WEIGHTS.definition(name)
        if found.unit in SCALE_FREE:
            values = [float(WEIGHTS[name](product)) for product in draws]
            yield summarize_values(name, found.unit, values, "", variant=NULL)


def sample_random_weight_product(seed: int, hidden: int, width: int) -> LowRankProduct:
    left, right = np.random.default_rng(seed).normal(size=(2, hidden, width))
    return LowRankProduct(left, right)


def build_attention_layer_count_rows(counts: AttentionLayerCounts) -> Iterator[Row]:
    kinds = {f"{kind}_layers": counts.kinds.get(kind, 0) for kind in ("full", "sliding", "linear")}
    values: dict[str, float | None] = {
        **(kinds if counts.kinds else dict.fromkeys(kinds)),
        "grouping": counts.queries_per_key_head,
        "qk_norm_layers": counts.qk_norm,
        "sink_logit_layers": counts.sinks,
        "gated_layers": counts.gates,
    }
    for name, value in values.items():
        note = None if value is not None else "the config does not say"
        yield Row(name, value, CENSUS[name].unit, note=note, keys={"of": "model"})


def describe_model_and_tensor_hash(
    opened: OpenedWeights, counts: AttentionLayerCounts
) -> JsonObject:
    """Which model, and the hash of the tensors that were read."""
    config, tensors = opened.config, opened.tensors
    return {
        **opened.identity,
        "model_type": config.model_type,
        "dtype_of_file": sorted({tensors.dtype(name) for name in tensors.read_from}),
        "weight_sha256_of_tensors_read": tensors.sha256(),
        "tensors_read": len(tensors.read_from),
        "norm_gain_folded": config.family.pre_norm,
        "census": counts.describe_layer_counts(),
    }


def build_head_weight_tables(names: Sequence[str]) -> Iterator[View]:
    for name in names:
        yield View(f"{name} of every head", down="layer", across="head", metrics=(name,))
    scale_free = tuple(name for name in names if WEIGHTS.definition(name).unit in SCALE_FREE)
    yield View("What chance would give", down="variant", metrics=scale_free)
    yield View("Census", down="of", metrics=tuple(CENSUS))
    yield View("Findings", "about", (), findings="what the weights say")


def build_head_weight_warnings(opened: OpenedWeights) -> Iterator[str]:
    config = opened.config
    yield from opened.warnings
    own = len({config.layer_index_in_tensor_names(layer) for layer in range(config.layer_count)})
    if own < config.layer_count:
        yield (
            f"the {config.layer_count} layers share the weights of {format_count(own, 'layer')}: only "
            f"{own * config.head_count} of their {config.layer_count * config.head_count} heads have numbers of their own."
        )
    if config.family.rotary and not config.family.qk_norm:
        yield f"qk metrics are {AT_OFFSET_0}."
