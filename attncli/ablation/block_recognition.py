"""A model's anatomy: recognised in one tracked forward, verified in others.

Where softmaxes alone do not separate attention from MLP, two more forwards test which branches mix tokens.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from torch import nn

from attncli.ablation.block_structure import (
    ADDITIONS,
    OF_MLP,
    BlockAnatomy,
    build_block_anatomy,
    trace_residual_streams,
)
from attncli.ablation.block_structure_checks import (
    check_block_additions,
    check_block_has_residual_stream,
    check_no_attention_between_blocks,
    check_stacks_mix_tokens,
    check_token_mixing_known,
    describe_block,
    needs_token_mixing_test,
    refuse_block_ablation,
)
from attncli.ablation.model_probes.describe_token_mixers import describe_mixers_besides_attention
from attncli.ablation.model_probes.operations_between_blocks import (
    UnchangedForward,
    check_only_states_between_blocks,
    run_unchanged_forward,
)
from attncli.ablation.model_probes.tracking_verification import (
    Seen,
    check_output_needs_residual_stream,
    check_tracking_unchanged,
    run_model_with_tracking,
)
from attncli.ablation.stream_tracking.ablation_policies import KeepEverything, Mixing, Where
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.capture.model_structure.blocks import (
    BlockStack,
    ModelStructure,
    build_attention_free_block_stacks,
    build_model_structure,
    collect_distinct_blocks,
)
from attncli.capture.model_structure.probe_forward import ProbeResult, probe_forward
from attncli.errors import InputError
from attncli.forward_argument_types import Inputs


class RecognisedBlocks(NamedTuple):
    """The blocks that mix tokens, and what an unchanged forward shows of them."""

    structure: ModelStructure
    attention_modules: frozenset[nn.Module]
    """The innermost modules around an attention."""
    plain: UnchangedForward | None
    """None where the forward showed something that is not understood; what comes first of that is to be told."""


def recognise_block_anatomy(
    model: nn.Module,
    inputs: Inputs,
    blocks: RecognisedBlocks | None = None,
    tracked: Seen | None = None,
    watched: AbstractContextManager[object] | None = None,
) -> BlockAnatomy:
    """Recognise what the switches will act on; a model is refused if any part of any block is not understood.

    This runs several forwards that keep every block's output: the inputs should be short. The result holds for any length,
    and every later run checks that its blocks take the same path. `blocks`: as recognised on these inputs, if they were;
    `tracked`: of a first tracked forward; `watched`: a context for the forward in which every block gets noise.
    """
    blocks = blocks or recognise_blocks(model, inputs)
    structure, stacks = blocks.structure, blocks.structure.stacks
    check_no_attention_between_blocks(structure)
    try:
        tracked, mixing, mlps = trace_token_mixing(model, inputs, stacks, tracked)
        for run, _ in tracked:
            check_block_additions(run)
    except InputError:
        refuse_hyper_connections(model, inputs, stacks)
        raise
    plain = blocks.plain or run_unchanged_forward(model, inputs, stacks)
    check_tracking_unchanged(tracked, plain.outputs.values())
    check_output_needs_residual_stream(model, inputs, stacks, mixing, watched)
    check_only_states_between_blocks(model, inputs, stacks, plain)
    notes = describe_mixers_besides_attention(
        model, inputs, stacks, blocks.attention_modules, tracked, mixing, mlps
    )
    return build_block_anatomy(structure, [run for run, _ in tracked], mixing, notes)


def recognise_blocks(
    model: nn.Module, inputs: Inputs, seen: ProbeResult | None = None
) -> RecognisedBlocks:
    """Find the blocks in a recorded forward, and run the model once unchanged."""
    if any(module.training for module in model.modules()):
        raise InputError(
            "the model is in training mode, whose dropout is random: call eval() first."
        )
    seen = seen or probe_forward(model, inputs)
    structure = find_token_mixing_blocks(model, seen)
    attending = frozenset(around[-1].module for around in seen.attention)
    try:
        plain = run_unchanged_forward(model, inputs, structure.stacks)
    except InputError:
        plain = None
    return RecognisedBlocks(structure, attending, plain)


def find_token_mixing_blocks(model: nn.Module, seen: ProbeResult) -> ModelStructure:
    """Blocks that attend, with all others of their lists; where nothing attends, all lists of alike blocks."""
    structure = build_model_structure(model, seen, may_have_none=True)
    if structure.stacks:
        return structure
    stacks = () if structure.outside else build_attention_free_block_stacks(model, seen)
    if not stacks:
        raise InputError(
            f"{type(model).__name__} has no list of blocks that attend: nothing here can be followed layer by layer."
        )
    return ModelStructure(stacks, ())


def refuse_hyper_connections(
    model: nn.Module, inputs: Inputs, stacks: tuple[BlockStack, ...]
) -> None:
    """Refuse hyper-connections: blocks that mix several streams of a token show no addition to the one stream."""
    from attncli.capture.other_mixers.hyper_connections import find_blocks_mixing_streams

    mixing = find_blocks_mixing_streams(model, collect_distinct_blocks(stacks), inputs)
    for stack in stacks:
        for call in stack.calls:
            if call.module in mixing:
                raise InputError(
                    f"{describe_block(stack.name, call)} cannot be ablated: each token has several streams that the block mixes "
                    "(hyper-connections), so there is no skip to switch off."
                )


def trace_token_mixing(
    model: nn.Module, inputs: Inputs, stacks: tuple[BlockStack, ...], tracked: Seen | None = None
) -> tuple[Seen, Mixing, Mixing]:
    """Run one tracked forward, if none was; test which branches mix tokens without attention, and which MLPs do."""
    tracked = tracked or run_model_with_tracking(model, inputs, stacks, KeepEverything())
    for run, _ in tracked:
        check_block_has_residual_stream(run)
    doubtful = [run for run, _ in tracked if needs_token_mixing_test(run)]
    if not doubtful:
        return tracked, frozenset(), frozenset()
    from attncli.ablation.model_probes.token_mixing import probe_token_mixing

    mixing, unknown = probe_token_mixing(model, inputs, stacks)
    for run in doubtful:
        check_token_mixing_known(run, unknown)
    tracked = run_model_with_tracking(model, inputs, stacks, KeepEverything(mixing))
    mixing = frozenset(
        where for run, _ in tracked for where in iter_branches_without_attention(run, mixing)
    )
    taken = frozenset(where for run, _ in tracked for where in iter_token_mixing_mlps(run))
    if taken:
        mixing -= taken
        tracked = run_model_with_tracking(model, inputs, stacks, KeepEverything(mixing))
    check_stacks_mix_tokens(run for run, _ in tracked)
    return tracked, mixing, taken


def iter_branches_without_attention(run: BlockRun, mixing: Mixing) -> Iterator[Where]:
    """Branches of one block without attention, added to the stream or to a branch with attention."""
    places = {
        point.addition_site
        for point in run.points.values()
        if point.kind in ("attention", "parallel")
    }
    for where in mixing:
        if where[:2] == (run.stack, run.call.layer) and where[2] not in places:
            yield where


def iter_token_mixing_mlps(run: BlockRun) -> Iterator[Where]:
    """MLPs that mix tokens, by a shift or a convolution in them: the last of two mixing branches, or the one next to attention.

    Of more such branches it is unknown which is the MLP.
    """
    for path in trace_residual_streams(run):
        additions = [point for point in path if point.kind in ADDITIONS]
        mixers = [point for point in additions if point.kind == "mixer"]
        attends = any(point.kind == "attention" for point in additions)
        if len(mixers) == len(additions) == 1 or any(point.kind in OF_MLP for point in additions):
            continue
        if len(mixers) > 2 - attends:
            where = ", ".join(str(point.key) for point in mixers)
            refuse_block_ablation(
                run, f"which of the branches that mix tokens is its MLP is not known ({where})"
            )
        if mixers and mixers[-1] is additions[-1]:
            yield run.stack, run.call.layer, additions[-1].addition_site
