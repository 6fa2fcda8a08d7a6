"""The context in which parts of a model's blocks are off."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from attncli.checkpoints.ablation.anatomy import Anatomy, path_of
from attncli.checkpoints.ablation.guards import described
from attncli.checkpoints.ablation.parts import Keep
from attncli.checkpoints.ablation.published import activation_left_in
from attncli.checkpoints.ablation.run import BlockRun
from attncli.checkpoints.ablation.sites import Site
from attncli.checkpoints.ablation.tags import Key, Point
from attncli.checkpoints.ablation.tracking import tracking
from attncli.errors import InputError, UsageError
from attncli.networks.variants import Switches


@contextmanager
def switched(model: nn.Module, anatomy: Anatomy, switches: Switches) -> Iterator[None]:
    """Within, forwards of `model` run without the parts that `switches` leaves out.

    A branch that is dropped is still computed. A block that takes another path than when it was examined is refused.
    """
    if switches.remove_outlier:
        raise UsageError("the outlier of attention can be removed from synthetic networks only.")

    def check(run: BlockRun, outputs: list[torch.Tensor]) -> None:
        if path_of(run) != anatomy.paths[run.stack, run.call.layer]:
            raise InputError(
                f"{described(run.stack, run.call)} takes another path than when it was examined: "
                "its code depends on the input, which is not understood."
            )

    with (
        activation_left_in(anatomy, switches) as remaining,
        tracking(model, anatomy.stacks, Chosen(anatomy, remaining), check),
    ):
        yield


class Chosen:
    """What the switches keep of each part."""

    def __init__(self, anatomy: Anatomy, switches: Switches) -> None:
        self.anatomy = anatomy
        self.switches = switches

    def merges(self, run: BlockRun, site: Site) -> bool:
        return (run.stack, run.call.layer, site) in self.anatomy.merges

    def addition(self, point: Point) -> Keep:
        """Attention's skip also is the one skip of parallel branches."""
        switches = self.switches
        if point.kind in ("attention", "parallel"):
            return Keep.BOTH if switches.skip else Keep.BRANCH
        if not switches.mlp:
            return Keep.STREAM
        return Keep.BOTH if switches.mlp_skip or point.kind == "beside" else Keep.BRANCH

    def merged_mlp(self) -> bool:
        return self.switches.mlp

    def norm(self, key: Key, fed_by: Point | None) -> bool:
        """A norm after the MLP goes with it; norms on queries, keys or anything else inside a branch stay."""
        if fed_by is None:
            return self.switches.norms or key not in self.anatomy.branch_norms
        follows_mlp = key in self.anatomy.mlp_norms and fed_by.kind == "mlp"
        kept = self.switches.mlp or self.switches.mlp_norm or not follows_mlp
        return self.switches.norms and kept
