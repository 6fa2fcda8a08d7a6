"""What of an addition, a merge or a norm is kept: the decisions that a tracker carries out."""

from enum import Enum, auto
from typing import Protocol

from attncli.surgery.block_run import BlockRun
from attncli.surgery.code_places import CodePlace
from attncli.surgery.tags import Key, StreamPoint


class Keep(Enum):
    """What an addition returns."""

    BOTH = auto()
    STREAM = auto()
    BRANCH = auto()
    NOTHING = auto()
    """Zeros: what is left of the output then does not come through the additions."""


class KeptParts(Protocol):
    """Decides for each thing recognised what is kept of it."""

    def merges(self, run: BlockRun, site: CodePlace) -> bool:
        """Whether the addition of two branches here may merge attention and MLP."""

    def addition(self, point: StreamPoint) -> Keep:
        """What the skip addition that makes this point of the stream returns."""

    def merged_mlp(self) -> bool:
        """Whether the MLP stays in what a merge returns."""

    def norm(self, key: Key, fed_by: StreamPoint | None) -> bool:
        """Whether a norm stays that is fed by this point of the stream, or by a branch."""


class Everything:
    """All is kept: the model as it is, only watched."""

    def merges(self, run: BlockRun, site: CodePlace) -> bool:
        return True

    def addition(self, point: StreamPoint) -> Keep:
        return Keep.BOTH

    def merged_mlp(self) -> bool:
        return True

    def norm(self, key: Key, fed_by: StreamPoint | None) -> bool:
        return True


class NoAdditions(Everything):
    """Every skip addition returns zeros: nothing of a block's input may then reach its output."""

    def addition(self, point: StreamPoint) -> Keep:
        return Keep.NOTHING
