"""Load a model whose output is decomposed by paths, choose one of its stacks, and verify its
capture."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from attncli.analysis.load_and_verify_model import (
    NOT_HALF,
    Requirement,
    load_model_in_dtype,
    prepare_model,
)
from attncli.analysis.paths.decomposed_model import DecomposableModel
from attncli.declare.dry_run import stop_dry_run_before_model_load
from attncli.errors import InputError, make_unknown_name_error
from attncli.model_and_file_sources import Source
from attncli.models.inputs.model_input import WORDS, ModelInput
from attncli.models.inputs.requested_inputs import check_config_and_tokenizer, make_model_inputs
from attncli.models.loading.device_placement import require_model_on_one_device
from attncli.models.loading.load_model import load_model
from attncli.models.loading.loaded_model import LoadedModel
from attncli.options.model_and_input import InputOptions, WholeModelOptions


def prepare_model_for_paths(
    source: Source,
    model: WholeModelOptions,
    inputs: InputOptions,
    tokens: int | None,
    seed: int,
    stack: str | None = None,
    needs: Requirement = Requirement.BLOCKS,
) -> tuple[DecomposableModel, Sequence[ModelInput]]:
    """Return the model with its chosen stack, and its inputs."""
    options = model.build_model_load_options(seed)
    requested = inputs.build_requested_input(tokens, seed)
    stop_dry_run_before_model_load()
    checkpoint = load_model_in_dtype(
        source, options, NOT_HALF, partial(check_config_and_tokenizer, requested)
    )
    texts = make_model_inputs(checkpoint, requested)
    subject = select_layer_stack(checkpoint, texts[0], stack, needs)
    single = subject.checkpoint.model.dtype == torch.float32
    drawn = options.allow_missing  # in another type other weights would be drawn
    if options.dtype is None and single and not drawn and options.device != "mps":
        wide = replace(options, dtype="float64")
        subject = replace(
            subject,
            wider=cache(
                lambda: select_layer_stack(
                    load_model(source, wide), texts[0].cast_to_float64(), stack
                )
            ),
        )
    return subject, texts


def select_layer_stack(
    checkpoint: LoadedModel,
    text: ModelInput,
    name: str | None,
    needs: Requirement = Requirement.BLOCKS,
) -> DecomposableModel:
    """The first stack, or the one that is named."""
    require_model_on_one_device(checkpoint.model, "following the paths of a stream")
    prepared = prepare_model(checkpoint.model_without_head, text, needs)
    named = {stack.name: stack for stack in prepared.stacks}
    if name is not None and name not in named:
        raise make_unknown_name_error("stack", name, named)
    return DecomposableModel(
        checkpoint, prepared, prepared.stacks[0] if name is None else named[name]
    )


def require_next_token_model(checkpoint: LoadedModel, texts: Sequence[ModelInput]) -> None:
    """Refuse the loss of models that do not predict tokens of the text."""
    name = type(checkpoint.model).__name__
    if name not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        raise InputError(f"`loss` needs a next-token model, and {name} is none: leave it out.")
    if any(WORDS not in text.kwargs for text in texts):
        raise InputError(
            f"`loss` is of the next token, and `inputs` holds no {WORDS}: leave it out."
        )
