"""Examine a model for its variants: the anatomy of its blocks, and what keeps its attention from collapsing."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from torch import nn

from attncli.ablation import BlockAnatomy, recognise_block_anatomy
from attncli.ablation.block_recognition import RecognisedBlocks, recognise_blocks
from attncli.ablation.block_structure import ADDITIONS
from attncli.ablation.model_probes.operations_between_blocks import UnchangedForward
from attncli.ablation.model_probes.tracking_verification import (
    Seen,
    check_tracking_unchanged,
    run_model_with_tracking,
)
from attncli.ablation.stream_tracking.ablation_policies import KeepEverything
from attncli.capture import AttentionSite, VerifiedCapture
from attncli.capture.model_structure.blocks import BlockCall
from attncli.capture.model_structure.probe_forward import ProbeResult
from attncli.capture.probe_causality_and_positions import (
    AttentionProperties,
    build_attention_properties,
    detect_causality_and_positions,
    record_attention_with_unequal_weights,
)
from attncli.capture.verify_captured_attention import (
    NOTHING_ATTENDS,
    gather_capture_evidence,
    list_output_tensors,
    verify_capture,
)
from attncli.errors import InputError, NoAttention
from attncli.forward_argument_types import Inputs


class BlockExamination(NamedTuple):
    """The parts of a model's blocks."""

    anatomy: BlockAnatomy
    properties: Mapping[str, AttentionProperties]
    """By stack."""
    plain: UnchangedForward | None = None
    """An unchanged forward on the short input."""


def recognise_blocks_and_verify_capture(
    body: nn.Module, inputs: Inputs, seen: ProbeResult
) -> tuple[VerifiedCapture, BlockExamination]:
    """Verify the capture and recognise the anatomy; one unchanged forward serves both, and one that is watched by both."""
    try:
        blocks = recognise_blocks(body, inputs, seen)
    except InputError:
        verify_capture_or_none(body, inputs, None)  # what it refuses comes first
        raise
    both = capture_and_track_blocks(body, inputs, blocks)
    proof, tracked = both or (verify_capture_or_none(body, inputs, blocks.plain), None)
    uneven: set[str] = set()
    watched = record_attention_with_unequal_weights(body, proof, uneven) if proof.sites else None
    anatomy = recognise_block_anatomy(body, inputs, blocks, tracked, watched)
    if proof.sites and is_self_attention_first_everywhere(anatomy, proof.sites):
        properties = build_attention_properties(anatomy.stacks, proof, uneven)
    else:
        properties = detect_causality_and_positions(body, anatomy.stacks, inputs, proof)
    return proof, BlockExamination(
        note_uncaptured_attention(anatomy, proof),
        add_mixers_and_mlps(properties, anatomy),
        blocks.plain,
    )


def capture_and_track_blocks(
    body: nn.Module, inputs: Inputs, blocks: RecognisedBlocks
) -> tuple[VerifiedCapture, Seen] | None:
    """Run once under capture and tracking; None where not both are then seen to change nothing.

    So they are looked at one after the other, and each refuses by itself. So it is where eager attention is not what the
    model computes as it is set: its variants run in the code that is tracked.
    """
    if blocks.plain is None:
        return None
    stacks, plain = blocks.structure.stacks, blocks.plain
    try:
        with gather_capture_evidence(body, inputs) as evidence:
            tracked = run_model_with_tracking(body, inputs, stacks, KeepEverything())
        proof = verify_capture(body, inputs, list_output_tensors(plain.result), evidence)
        check_tracking_unchanged(tracked, plain.outputs.values())
    except Exception:  # whatever it is, it is raised again by what causes it
        return None
    return None if proof.eager_alone else (proof, tracked)


def verify_capture_or_none(
    body: nn.Module, inputs: Inputs, plain: UnchangedForward | None
) -> VerifiedCapture:
    """The verified capture; empty for a model in which no softmax weighs values."""
    try:
        return verify_capture(body, inputs, plain and list_output_tensors(plain.result))
    except NoAttention:
        return NOTHING_ATTENDS


def is_self_attention_first_everywhere(
    anatomy: BlockAnatomy, sites: Sequence[AttentionSite]
) -> bool:
    """Whether a block that is given equal tokens by itself shows what it shows in a model given these.

    So it is where a block attends to its own input first, and nothing else mixes tokens: attention of equal tokens gives
    equal tokens, and only attention that knows positions tells them apart. Elsewhere positions may come from earlier blocks.
    """
    return all(
        call.joined
        and has_standard_sublayer_order(anatomy.paths[stack.name, call.layer])
        and is_self_attention_first(call, sites)
        for stack in anatomy.stacks
        for call in stack.calls
    )


def has_standard_sublayer_order(path: Sequence[str]) -> bool:
    """Whether attention comes first, and one MLP last or beside it."""
    *first, last = [kind for kind in path if kind in ADDITIONS]
    return last == "parallel" if not first else last == "mlp" and set(first) == {"attention"}


def is_self_attention_first(call: BlockCall, sites: Sequence[AttentionSite]) -> bool:
    """Whether the first of the block's attentions, and no other, is to its own tokens; `sites`: in the order in which they run."""
    inside = {
        site.name: site.is_self_attention for site in sites if site.name.startswith(f"{call.name}.")
    }
    return list(inside.values()) == [True, *[False] * (len(inside) - 1)]


def note_uncaptured_attention(anatomy: BlockAnatomy, proof: VerifiedCapture) -> BlockAnatomy:
    unseen = (each.describe_why_no_map() for each in proof.left_out if each.reaches is not False)
    return replace(anatomy, notes=(*anatomy.notes, *unseen))


def add_mixers_and_mlps(
    properties: Mapping[str, AttentionProperties], anatomy: BlockAnatomy
) -> dict[str, AttentionProperties]:
    """The properties with what the anatomy shows of a stack."""
    return {
        stack: replace(
            found, mixers=anatomy.has_softmax_free_mixers(stack), mlps=anatomy.has_mlps(stack)
        )
        for stack, found in properties.items()
    }
