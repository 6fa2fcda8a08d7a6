"""Conditions that every block must satisfy before a part of it is ablated; a violation is refused by name."""

from collections.abc import Iterable
from itertools import pairwise
from typing import NoReturn

from attncli.ablation.block_structure import (
    ADDITIONS,
    OF_ATTENTION,
    OF_MLP,
    is_post_norm_block,
    trace_residual_streams,
)
from attncli.ablation.stream_tracking.ablation_policies import Mixing
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.ablation.stream_tracking.tensor_tags import StreamPoint
from attncli.capture.model_structure.blocks import BlockCall, BlockStack, ModelStructure
from attncli.errors import InputError, NoAttention


def check_no_attention_between_blocks(structure: ModelStructure) -> None:
    """Check that nothing attends between two blocks, and only their state passes there."""
    for one in structure.outside:
        if one.between:
            raise InputError(
                f"{one.name} attends {one.where}, outside every block: switching parts of the blocks off would leave it on."
            )
    for stack in structure.stacks:
        others = [other for other in structure.stacks if other is not stack]
        for call in stack.calls:
            if not call.alone:
                refuse_broken_block_chain(stack.name, call)
            if call.borrows:
                refuse_blocks_taking_earlier_states(stack.name, call, others)


def refuse_broken_block_chain(stack: str, call: BlockCall) -> NoReturn:
    """Refuse a block that does not take the output of the one before it."""
    if call.bare:
        raise InputError(
            f"{describe_block(stack, call)} is an attention alone, and its skip, norms and MLP run outside of it: no module holds "
            f"a block of {stack}, so that no part of one can be switched off."
        )
    raise InputError(
        f"{describe_block(stack, call)} is given something else than the block before it returns, made of more than that: "
        "what happens between them is not understood."
    )


def refuse_blocks_taking_earlier_states(
    stack: str, call: BlockCall, others: list[BlockStack]
) -> NoReturn:
    """Refuse blocks that take earlier states: these would remain, whatever is ablated."""
    for other in others:
        if other.calls[0].name.startswith(f"{call.name}."):
            raise InputError(
                f"{describe_block(stack, call)} holds the blocks of {other.name}, and is given more of earlier states than the block "
                "before it returns: it is no block of its own."
            )
    raise InputError(
        f"{describe_block(stack, call)} is given more of earlier states than the block before it returns: "
        "switching its parts off would leave that on."
    )


def check_block_has_residual_stream(run: BlockRun) -> None:
    """Check that a block returns its input with branches added to it."""
    if not run.outputs or not all(run.outputs):
        refuse_block_ablation(
            run, f"{explain_missing_residual_stream(run)}: {describe_residual_additions(run)}"
        )
    if not all(
        any(point.kind in ADDITIONS for point in path) for path in trace_residual_streams(run)
    ):
        refuse_block_ablation(
            run, f"nothing is added to its input: {describe_residual_additions(run)}"
        )


def explain_missing_residual_stream(run: BlockRun) -> str:
    if run.gated:
        places = ", ".join(sorted({str(place) for place in run.gated}))
        return f"its stream is multiplied by a gate that depends on states ({places})"
    if run.outputs and run.outputs[0]:
        return "what it passes on besides its stream is not that plus branches"
    return "its output is not its input plus branches"


def needs_token_mixing_test(run: BlockRun) -> bool:
    """Whether softmaxes alone do not show which branch is attention and which the MLP."""
    return not run.call.attention or any(
        sum(point.kind in OF_MLP for point in path) != 1 for path in trace_residual_streams(run)
    )


def check_stacks_mix_tokens(runs: Iterable[BlockRun]) -> None:
    """Check that something in every stack mixes tokens."""
    stacks: dict[str, list[BlockRun]] = {}
    for run in runs:
        stacks.setdefault(run.stack, []).append(run)
    for name, own in stacks.items():
        if not any(point.kind in OF_ATTENTION for run in own for point in run.points.values()):
            raise NoAttention(f"nothing in the blocks of {name} mixes tokens.")


def check_token_mixing_known(run: BlockRun, unknown: Mixing) -> None:
    """Check that it is known of every branch without attention whether it mixes tokens."""
    for point in run.points.values():
        without = point.kind in ADDITIONS and point.kind != "attention"
        if without and (run.stack, run.call.layer, point.addition_site) in unknown:
            refuse_block_ablation(
                run, f"whether what is added at {point.key} mixes tokens cannot be found out"
            )


def check_block_additions(run: BlockRun) -> None:
    """Check that every addition between a block's input and its output is recognised."""
    paths = trace_residual_streams(run)
    additions = {point for point in run.points.values() if point.kind in ADDITIONS}
    aside = additions.difference(*paths)
    if aside:
        refuse_block_ablation(
            run, f"{list_residual_additions(aside)} is not on the way to the output"
        )
    for path in paths:
        if run.call.attention and not any(point.kind in OF_ATTENTION for point in path):
            refuse_block_ablation(
                run,
                f"no addition of an attention branch is recognised: {describe_residual_additions(run)}",
            )
        if run.inseparable and not any(point.kind in OF_MLP for point in path):
            refuse_block_ablation(
                run,
                f"its MLP is part of {list_residual_additions(run.inseparable)}, with no skip of its own",
            )
        check_norm_layers_after_mlps(run, path)
        check_branch_merges(run, path)
    check_attention_is_added_once(run)
    if run.strange_norms:
        names = ", ".join(sorted(map(str, run.strange_norms)))
        refuse_block_ablation(
            run, f"the norm {names} is fed by neither the stream nor a projection of it"
        )


def check_norm_layers_after_mlps(run: BlockRun, path: list[StreamPoint]) -> None:
    """Check that no norm follows an MLP that may belong to it or to the next part."""
    for place, (point, following) in enumerate(pairwise(path)):
        last = not any(later.kind in ADDITIONS for later in path[place + 1 :])
        mlp = point.kind in OF_MLP and not point.pre_normed
        if mlp and following.kind == "norm" and not (last or is_post_norm_block(path)):
            refuse_block_ablation(
                run, f"a norm follows {point.key} that may belong to what comes next"
            )


def check_attention_is_added_once(run: BlockRun) -> None:
    """Check that every attention call ends in exactly one addition."""
    for reached in run.reached:
        if len(reached) != 1:
            where = (
                f"the additions {list_residual_additions(reached)}"
                if reached
                else "no recognised addition"
            )
            refuse_block_ablation(
                run, f"an attention call reaches {where}: {describe_residual_additions(run)}"
            )


def check_branch_merges(run: BlockRun, path: list[StreamPoint]) -> None:
    """Check that two branches merge once, in one place, so that dropping the MLP there is well defined."""
    merges = [bare.key for point in path for bare in point.bare if bare.kind == "merge"]
    if len(merges) > 1 or any(run.merges.count(site) != 1 for site in merges):
        refuse_block_ablation(
            run, f"more than two branches are merged: {', '.join(map(str, run.merges))}"
        )


def refuse_block_ablation(run: BlockRun, why: str) -> NoReturn:
    raise InputError(f"{describe_block(run.stack, run.call)} cannot be ablated: {why}.")


def describe_block(stack: str, call: BlockCall) -> str:
    return f"block {call.layer} of {stack} ({call.name}, {type(call.module).__name__})"


def describe_residual_additions(run: BlockRun) -> str:
    """Describe all additions to the stream, recognised or not, with their places in the code."""
    skips = list_residual_additions(
        point for point in run.points.values() if point.kind in ADDITIONS
    )
    strange = ", ".join(sorted({str(site) for site in run.strange}))
    return f"recognised {skips or 'no addition'}; not recognised {strange or 'none'}"


def list_residual_additions(points: Iterable[StreamPoint]) -> str:
    """List additions with their places in the code."""
    return ", ".join(sorted(f"{point.kind} at {point.key}" for point in points))
