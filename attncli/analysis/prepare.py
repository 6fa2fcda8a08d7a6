"""From SOURCE and the model options to a study of a loaded model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from attncli.declare.dry_run import STAGE
from attncli.errors import NoAttention
from attncli.options.model import CheckpointOptions, TextOptions
from attncli.sources import Source

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from attncli.analysis.states.variant_runs import CollapseModel
    from attncli.capture import VerifiedCapture
    from attncli.capture.attention_properties import AttentionProperties
    from attncli.capture.stacks.truncate_stream import StreamTruncation

PROBE_TOKENS = 12
"""Length of the input on which a model's structure is found and verified."""


def refuse_at_once(
    source: Source, model: CheckpointOptions, inputs: TextOptions, tokens: int | None, seed: int
) -> None:
    """Validate options and the model's folder before anything heavy is imported."""
    model.to_load(seed)
    inputs.to_read(tokens, seed)
    from attncli.models.files.folders import read_config
    from attncli.models.files.local_folder import FetchSettings, find_local_folder
    from attncli.models.files.weight_files import refuse_unreadable

    if source.kind == "folder":
        folder = find_local_folder(source).folder
        read_config(folder)
        refuse_unreadable(folder, model.allow_pickle)
    if source.kind == "hub" and not STAGE.rehearsing:
        how = FetchSettings(model.revision, model.offline, config_alone=True)
        find_local_folder(source, how)


class ExaminedModel(NamedTuple):
    """The structure of a model, found on a short input."""

    subject: "CollapseModel"
    traits: "Mapping[str, AttentionProperties]"
    proof: "VerifiedCapture"
    short: "Mapping[str, Any]"
    """The input."""
    cut: "StreamTruncation"
    """How the model truncates the residual stream."""


def examine_model(model: "PreTrainedModel") -> ExaminedModel:
    """The model's blocks and attention, proved on a short input."""
    from attncli.ablation import recognise_anatomy
    from attncli.analysis.states.variant_runs import CollapseModel
    from attncli.capture.attention_properties import find_attention_properties
    from attncli.capture.model_errors import translate_model_errors
    from attncli.capture.verification import NOTHING_ATTENDS, verify_capture
    from attncli.models.loading.body import body_of
    from attncli.models.loading.precision import run_in_model_precision
    from attncli.models.random.short_inputs import find_short_streams, make_short_inputs

    body = body_of(model)
    with run_in_model_precision(body):
        short = make_short_inputs(body, PROBE_TOKENS)
        with translate_model_errors(body, {"a short input": short}):
            cut = find_short_streams(body, short, PROBE_TOKENS)
            with cut.streams():
                try:
                    proof = verify_capture(body, short)
                except NoAttention:
                    proof = NOTHING_ATTENDS
                anatomy = recognise_anatomy(body, short)
                properties = {
                    stack: replace(
                        found, mixers=anatomy.has_mixers(stack), mlps=anatomy.has_mlps(stack)
                    )
                    for stack, found in find_attention_properties(
                        body, anatomy.stacks, short, proof
                    ).items()
                }
    unseen = (each.describe() for each in proof.left_out if each.reaches is not False)
    anatomy = replace(anatomy, notes=(*anatomy.notes, *unseen))
    subject = CollapseModel(body, anatomy, exact=False, eager_alone=proof.eager_alone)
    return ExaminedModel(subject, properties, proof, short, cut)
