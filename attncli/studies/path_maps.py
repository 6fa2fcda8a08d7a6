"""Single paths of a trained model: how close the product of their attention matrices is to rank 1."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from attncli.checkpoints.inputs.texts import ModelInput
from attncli.checkpoints.loading.load import Checkpoint
from attncli.checkpoints.streaming import Site, Strip, streaming
from attncli.errors import InputError
from attncli.maths.scaled import Array, Scaled, scaled
from attncli.maths.split import Split
from attncli.metrics.log10_residual import log10_residual
from attncli.records import Finding, Report, View
from attncli.studies import Progress, no_progress
from attncli.studies.model_runs import own_precision
from attncli.studies.path_choices import Path, random_path
from attncli.studies.path_samples import (
    OWN_METRICS,
    RESIDUAL,
    Single,
    decay,
    path_rows,
    quantile_rows,
    quantile_views,
    said,
)

STEP = "attention"
"""The variant of the rows: paths of attention alone, whatever MLPs stand between."""

UNEVEN = 1e-4
"""How far the rows of a map may be from summing to one: beyond, 1c^T does not pass through it unchanged."""


class Maps:
    """The attention maps of one stack on one text, [head, query, key] for each layer in order."""

    def __init__(self, body: nn.Module, text: ModelInput) -> None:
        self.found: dict[Site, Array] = {}
        with torch.no_grad(), own_precision(body), streaming(body, self.observe):
            body(**text.kwargs)
        sites = [site for site in self.found if site.kind == "self"]
        if not sites:
            raise InputError(
                f"{type(body).__name__} has no attention whose paths could be followed."
            )
        self.stack = sites[0].stack
        self.layers = [self.found[site] for site in sites if site.stack == self.stack]
        for layer, maps in enumerate(self.layers):
            off = float(np.abs(maps.sum(axis=-1) - 1.0).max())
            if off > UNEVEN or maps.shape[1] != maps.shape[2]:
                raise InputError(
                    f"layer {layer} of {self.stack}: attention rows that miss the sum of one by {off:.1g}, or maps "
                    "that are not square, have no product that is understood here."
                )

    def observe(self, site: Site, strip: Strip) -> None:
        """Strips put together; keys left out have weight 0."""
        weights = strip.weights[0].to("cpu", torch.float64).numpy()
        heads, rows, keys = weights.shape
        whole = self.found.setdefault(site, np.zeros((heads, strip.queries, strip.keys)))
        place = slice(strip.first_query, strip.first_query + rows)
        whole[:, place, strip.first_key : strip.first_key + keys] = weights

    @property
    def heads(self) -> list[int]:
        return [len(maps) for maps in self.layers]

    def follow(self, path: Path) -> Single:
        """P(1c^T + V) = 1c^T + P V: the product's residual is carried apart and has no floor."""
        product = Split.of(np.eye(self.layers[0].shape[1])).split()
        for choice, maps in zip(path, self.layers, strict=True):
            if choice:
                varying = scaled(
                    maps[choice - 1] @ product.varying.mantissa, product.varying.exponent
                )
                product = Split(product.common, Scaled(*varying), plain=False)
        return Single(log10_residual(product), None)


def sampled_in_model(
    checkpoint: Checkpoint,
    texts: Sequence[ModelInput],
    samples: int,
    seed: int,
    progress: Progress = no_progress,
) -> Report:
    """Random paths of every length, over all texts."""
    stream = np.random.default_rng(seed)
    found: dict[int, list[Single]] = {}
    stack = ""
    for done, text in enumerate(texts):
        maps = Maps(checkpoint.body, text)
        stack = maps.stack
        for length in range(1, len(maps.layers) + 1):
            paths = [random_path(stream, maps.heads, length) for _ in range(samples)]
            found.setdefault(length, []).extend(map(maps.follow, paths))
        progress(done + 1, len(texts), "texts")
    rows = tuple(
        row for length, singles in found.items() for row in quantile_rows(length, singles, STEP)
    )
    findings = (Finding(STEP, decay(rows)),)
    return Report(
        study="paths",
        headline=findings[0].text,
        rows=rows,
        metrics={RESIDUAL: OWN_METRICS[RESIDUAL]},
        views=quantile_views([RESIDUAL], STEP, samples * len(texts)),
        findings=findings,
        seeds=(seed,),
        **about_model(checkpoint, texts, stack),
    )


def named_in_model(
    checkpoint: Checkpoint,
    texts: Sequence[ModelInput],
    paths: Sequence[Path],
    progress: Progress = no_progress,
) -> Report:
    """Some paths, by name, over all texts."""
    found: dict[Path, list[Single]] = {path: [] for path in paths}
    stack = ""
    for done, text in enumerate(texts):
        maps = Maps(checkpoint.body, text)
        stack = maps.stack
        for path in found:
            found[path].append(maps.follow(path))
        progress(done + 1, len(texts), "texts")
    rows = tuple(row for path, singles in found.items() for row in path_rows(path, singles, STEP))
    return Report(
        study="paths",
        headline=f"Path {rows[0].keys['path']} (length {rows[0].keys['length']}): log10 distance of its "
        f"attention product to rank 1 {said(rows, RESIDUAL)}.",
        rows=rows,
        metrics={RESIDUAL: OWN_METRICS[RESIDUAL]},
        views=(View("Single paths", "path", (RESIDUAL,)),),
        **about_model(checkpoint, texts, stack),
    )


def about_model(
    checkpoint: Checkpoint, texts: Sequence[ModelInput], stack: str
) -> Mapping[str, Any]:
    """What every report on a model's single paths says of it."""
    return {
        "source": {**checkpoint.identity, "stack": stack},
        "input": {"texts": [{"name": text.name, "tokens": text.tokens} for text in texts]},
        "warnings": checkpoint.warnings,
    }
