"""What of an addition, a merge or a norm is kept: the decisions that a tracker carries out."""

from enum import Enum, auto
from typing import Protocol

from attncli.ablation.tags.block_run import BlockRun
from attncli.ablation.tags.call_sites import CallSite
from attncli.ablation.tags.tags import AdditionSite, Key, StreamPoint

Mixing = frozenset[tuple[str, int, AdditionSite]]
"""Per stack and layer the branches that mix tokens though no softmax attends in them."""


class Keep(Enum):
    """What an addition returns."""

    BOTH = auto()
    STREAM = auto()
    BRANCH = auto()
    NOTHING = auto()
    """Zeros: what is left of the output then does not come through the additions."""


class KeepPolicy(Protocol):
    """Decides for each thing recognised what is kept of it."""

    def merges(self, run: BlockRun, site: CallSite) -> bool:
        """Whether the addition of two branches here may merge attention and MLP."""

    def mixes(self, run: BlockRun, place: AdditionSite) -> bool:
        """Whether the branch without attention that is added here mixes tokens."""

    def addition(self, point: StreamPoint) -> Keep:
        """What the skip addition that makes this point of the stream returns."""

    def merged_mlp(self) -> bool:
        """Whether the MLP stays in what a merge returns."""

    def norm(self, key: Key, fed_by: StreamPoint | None) -> bool:
        """Whether a norm stays that is fed by this point of the stream, or by a branch."""


class KeepEverything:
    """All is kept: the model as it is, only watched."""

    def __init__(self, mixing: Mixing = frozenset()) -> None:
        self.mixing = mixing

    def merges(self, run: BlockRun, site: CallSite) -> bool:
        return not self.mixes(run, AdditionSite(site))

    def mixes(self, run: BlockRun, place: AdditionSite) -> bool:
        return (run.stack, run.call.layer, place) in self.mixing

    def addition(self, point: StreamPoint) -> Keep:
        return Keep.BOTH

    def merged_mlp(self) -> bool:
        return True

    def norm(self, key: Key, fed_by: StreamPoint | None) -> bool:
        return True


class DropAdditions(KeepEverything):
    """Every skip addition returns zeros: nothing of a block's input may then reach its output."""

    def addition(self, point: StreamPoint) -> Keep:
        return Keep.NOTHING


class KeepStreamOnly(KeepEverything):
    """Every skip addition returns the stream alone: what is done to one token of a block's input is not carried on."""

    def addition(self, point: StreamPoint) -> Keep:
        return Keep.STREAM
