"""Policies: which parts of additions, merges and norms a tracker keeps."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.ablation.stream_tracking.source_code_locations import CallSite
from attncli.ablation.stream_tracking.tensor_tags import AdditionSite, Key, StreamPoint

Where = tuple[str, int, AdditionSite]
"""Stack, layer and addition of a branch."""

Mixing = frozenset[Where]
"""The branches that mix tokens without a softmax."""


class Keep(Enum):
    """Which summands an addition returns."""

    BOTH = auto()
    STREAM = auto()
    BRANCH = auto()
    NOTHING = auto()
    """Return zeros: what remains of the output then bypassed the additions."""


class KeepPolicy(Protocol):
    """Decides what is kept of each recognised part."""

    def may_addition_merge_attention_and_mlp(self, run: BlockRun, site: CallSite) -> bool:
        """Whether the addition of two branches here may merge attention and MLP."""

    def is_token_mixing_branch(self, run: BlockRun, place: AdditionSite) -> bool:
        """Whether the branch without attention that is added here mixes tokens."""

    def choose_summands_of_skip(self, point: StreamPoint) -> Keep:
        """Which summands the skip addition returns that makes this point of the stream."""

    def does_ablation_keep_merged_mlp(self) -> bool:
        """Whether the MLP stays in the result of a merge."""

    def does_ablation_keep_norm_layer(self, key: Key, fed_by: StreamPoint | None) -> bool:
        """Whether a norm stays, of this point of the stream or of a branch."""


@dataclass
class KeepEverything:
    """Keeps everything: the model runs unchanged under tracking."""

    mixing: Mixing = frozenset()

    def may_addition_merge_attention_and_mlp(self, run: BlockRun, site: CallSite) -> bool:
        return not self.is_token_mixing_branch(run, AdditionSite(site))

    def is_token_mixing_branch(self, run: BlockRun, place: AdditionSite) -> bool:
        return (run.stack, run.call.layer, place) in self.mixing

    def choose_summands_of_skip(self, point: StreamPoint) -> Keep:
        return Keep.BOTH

    def does_ablation_keep_merged_mlp(self) -> bool:
        return True

    def does_ablation_keep_norm_layer(self, key: Key, fed_by: StreamPoint | None) -> bool:
        return True


class DropAdditions(KeepEverything):
    """Drops every skip addition: no part of a block's input may then reach its output."""

    def choose_summands_of_skip(self, point: StreamPoint) -> Keep:
        return Keep.NOTHING


class KeepStreamOnly(KeepEverything):
    """Every skip addition returns the stream alone: a change of one token of a block's input stays in that token."""

    def choose_summands_of_skip(self, point: StreamPoint) -> Keep:
        return Keep.STREAM
