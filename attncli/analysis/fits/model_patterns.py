"""Heads of a model as target patterns: their maps on one text, sparsified strip by strip, never
whole in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from scipy.sparse import csr_array, vstack

from attncli.analysis.load_and_verify_model import Requirement, prepare_model
from attncli.capture import STRIP_MEMORY, AttentionSite, Strip, capture_attention
from attncli.capture.model_errors import translate_model_errors
from attncli.errors import InputError, UsageError
from attncli.models.inputs.model_input import ModelInput
from attncli.models.loading.loaded_model import LoadedModel
from attncli.patterns._make_sparse_pattern import require_pattern_fits_memory
from attncli.patterns._pattern_text_grammar import ModelHead


@dataclass
class SparseMapBuilder:
    """The sparse part of one head's map so far."""

    head: ModelHead
    stacks: set[str] = field(default_factory=set)
    parts: list[csr_array] = field(default_factory=list)

    def accumulate_map_rows(self, site: AttentionSite, strip: Strip) -> None:
        """Add the head's rows of a strip, without the weights below the threshold."""
        self.stacks.add(site.stack)
        if len(self.stacks) > 1:
            raise InputError(
                f"{self.head.text}: layer {self.head.layer} is in {' and in '.join(sorted(self.stacks))}: "
                "give a model with one stack of layers."
            )
        batch, heads = strip.weights.shape[:2]
        if batch != 1:
            raise InputError(
                f"{self.head.text}: layer {self.head.layer} attends within {batch} windows: it has no one map."
            )
        if self.head.head >= heads:
            raise UsageError(
                f"{self.head.text}: layer {self.head.layer} has heads 0 … {heads - 1}."
            )
        rows = strip.weights[0, self.head.head].cpu().double().numpy()
        part = self.head.keep_strongest_weights(csr_array(rows))
        columns = part.indices + strip.first_key
        self.parts.append(
            csr_array((part.data, columns, part.indptr), shape=(len(rows), strip.keys))
        )
        require_pattern_fits_memory(self.head.text, sum(each.nnz for each in self.parts))

    def build_pattern(self) -> csr_array:
        return csr_array(vstack(self.parts))


def capture_model_patterns(
    checkpoint: LoadedModel,
    text: ModelInput,
    heads: Sequence[ModelHead],
    strip_memory: int = STRIP_MEMORY,
) -> Mapping[str, csr_array]:
    """Capture every head's pattern, by its name, in one forward pass."""
    builders = [SparseMapBuilder(head) for head in heads]
    layers: set[int] = set()

    def accumulate_map_rows(site: AttentionSite, strip: Strip) -> None:
        if site.kind != "self":
            return
        layers.add(site.layer)
        for one in builders:
            if one.head.layer == site.layer:
                one.accumulate_map_rows(site, strip)

    body = checkpoint.model_without_head
    proved = prepare_model(body, text, Requirement.CAPTURE).shapes
    with (
        translate_model_errors(body, {text.name: text.kwargs}),
        torch.no_grad(),
        capture_attention(body, accumulate_map_rows, strip_memory, proved),
    ):
        body(**text.kwargs)
    for one in builders:
        if not one.parts:
            known = ", ".join(map(str, sorted(layers))) or "none"
            raise UsageError(
                f"{one.head.text}: there is no attention in layer {one.head.layer}; layers with: {known}."
            )
    return {one.head.text: one.build_pattern() for one in builders}
