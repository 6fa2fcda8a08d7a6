"""Ablate parts of a model's blocks."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from attncli.ablation.albert_mlp_activation import keep_albert_activation
from attncli.ablation.block_structure import (
    BlockAnatomy,
    describe_block_operations,
    trace_residual_streams,
)
from attncli.ablation.block_structure_checks import describe_block
from attncli.ablation.run_blocks_under_tracker import track_blocks
from attncli.ablation.stream_tracking.ablation_policies import Keep
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.ablation.stream_tracking.source_code_locations import CallSite
from attncli.ablation.stream_tracking.tensor_tags import AdditionSite, Key, StreamPoint
from attncli.errors import InputError, UsageError
from attncli.networks.ablation_variants import AblationSwitches, require_known_switches

Within = Callable[[BlockRun, str, torch.Tensor], None]
"""within(run, "attention", stream): the stream between two sub-blocks of a block, norms after the first included."""


KNOWN = ("skip", "mlp", "mlp_skip", "remove_outlier", "norms", "mlp_norm", "as_published")
"""Switches that are applied here, or refused."""


@contextmanager
def ablate_sub_blocks(
    model: nn.Module,
    anatomy: BlockAnatomy,
    switches: AblationSwitches,
    within: Within | None = None,
) -> Iterator[None]:
    """Within, forwards of `model` run without the parts that `switches` leaves out.

    A branch that is dropped still runs; split tensors compute none of its numbers. A block that takes another path than
    when it was examined is refused.
    """
    require_known_switches(switches, KNOWN, "a model's block")
    if switches.remove_outlier:
        raise UsageError(
            "the outlier of attention can be removed from synthetic networks only.",
            about=["remove_outlier"],
        )

    def require_same_block_operations(run: BlockRun, outputs: list[torch.Tensor]) -> None:
        if describe_block_operations(run) != anatomy.paths[run.stack, run.call.layer]:
            raise InputError(
                f"{describe_block(run.stack, run.call)} takes another path than when it was examined: "
                "its code depends on the input, which is not understood."
            )
        if within is not None:
            for name, stream in iter_sub_block_states(run, outputs[0]):
                within(run, name, stream)

    chosen = partial(
        track_blocks,
        model,
        anatomy.stacks,
        done=require_same_block_operations,
        values=within is not None,
    )
    with (
        keep_albert_activation(anatomy, switches) as remaining,
        chosen(parts=KeepBySwitches(anatomy, remaining)),
    ):
        yield


def iter_sub_block_states(
    run: BlockRun, output: torch.Tensor
) -> Iterator[tuple[str, torch.Tensor]]:
    """Iterate over the stream after each sub-block but the last, whose result is the block's."""
    points = trace_residual_streams(run)[0]
    starts = [place for place, point in enumerate(points) if point.kind not in ("input", "norm")]
    for number, (place, following) in enumerate(itertools.pairwise(starts)):
        stream = (run.values or {})[points[following - 1]]
        if stream.shape != output.shape:
            raise InputError(
                f"{describe_block(run.stack, run.call)} runs in pieces: there is no state between its sub-blocks."
            )
        kind = "attention" if points[place].kind == "mixer" else points[place].kind
        yield kind + (f" {number + 1}" if number else ""), stream


@dataclass
class KeepBySwitches:
    """Keeps those parts of each block that the switches select."""

    anatomy: BlockAnatomy
    switches: AblationSwitches

    def may_addition_merge_attention_and_mlp(self, run: BlockRun, site: CallSite) -> bool:
        return (run.stack, run.call.layer, site) in self.anatomy.merges

    def is_token_mixing_branch(self, run: BlockRun, place: AdditionSite) -> bool:
        return (run.stack, run.call.layer, place) in self.anatomy.mixing

    def choose_summands_of_skip(self, point: StreamPoint) -> Keep:
        """Attention's skip also covers other token mixers, and is the one skip of parallel branches."""
        switches = self.switches
        if point.kind in ("attention", "mixer", "parallel"):
            return Keep.BOTH if switches.skip else Keep.BRANCH
        if not switches.mlp:
            return Keep.STREAM
        return Keep.BOTH if switches.mlp_skip or point.kind == "beside" else Keep.BRANCH

    def does_ablation_keep_merged_mlp(self) -> bool:
        return self.switches.mlp

    def does_ablation_keep_norm_layer(self, key: Key, fed_by: StreamPoint | None) -> bool:
        """A norm after the MLP is dropped with it; norms of queries, keys or anything else inside a branch stay."""
        if fed_by is None:
            return self.switches.norms or key not in self.anatomy.branch_norms
        follows_mlp = key in self.anatomy.mlp_norms and fed_by.kind == "mlp"
        has_switch = self.switches.mlp or self.switches.mlp_norm or not follows_mlp
        return self.switches.norms and has_switch
