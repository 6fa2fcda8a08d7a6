"""Load the model for `attn head-capacity MODEL --head 0.HEAD --inputs embeddings`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from attncli.analysis.heads.prepare_softmax_attention_heads import prepare_softmax_heads
from attncli.commands.head_capacity.one_head.inputs_for_pattern import PatternInputs
from attncli.commands.head_capacity.one_head.real_token_inputs import add_real_token_results
from attncli.commands.head_capacity.one_head.token_queries_and_keys import (
    require_head_of_first_layer,
)
from attncli.fits import FitRequest
from attncli.head_weights.trained_head import Head
from attncli.models.loading.load_model import load_model
from attncli.options.model_and_input import CheckpointOptions
from attncli.progress import Progress
from attncli.records import Report


class AddTokenInputs(Protocol):
    """From the report of free inputs to one that also has those of real tokens."""

    def __call__(
        self,
        report: Report,
        head: Head,
        inputs: Sequence[PatternInputs],
        request: FitRequest,
        seeds: Sequence[int],
        progress: Progress,
    ) -> Report: ...


def load_model_for_token_inputs(model: str, head: Head, files: CheckpointOptions) -> AddTokenInputs:
    """Load it in float64, so that its own map can be compared with the one from its weights."""
    require_head_of_first_layer(head)

    def add_results_of_real_tokens(
        report: Report,
        head: Head,
        inputs: Sequence[PatternInputs],
        request: FitRequest,
        seeds: Sequence[int],
        progress: Progress,
    ) -> Report:
        checkpoint = load_model(
            model, replace(files.build_model_load_options(seeds[0]), dtype="float64")
        )
        subject = prepare_softmax_heads(checkpoint.model_without_head)
        return add_real_token_results(
            report,
            checkpoint,
            subject,
            head,
            inputs,
            request=request,
            seeds=seeds,
            progress=progress,
        )

    return add_results_of_real_tokens
