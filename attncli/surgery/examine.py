"""A model's anatomy: recognised in one tracked forward, proved in three more."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from attncli.errors import InputError
from attncli.surgery.anatomy import Anatomy, anatomy_of
from attncli.surgery.gaps import check_between
from attncli.surgery.guards import check_run, check_structure
from attncli.surgery.kept_parts import Everything
from attncli.surgery.proofs import check_nothing_passes, check_unchanged, seen
from attncli.watching.blocks import structure_of


def examine(model: nn.Module, inputs: Mapping[str, Any]) -> Anatomy:
    """What the switches will act on; a model is refused where any part of any block is not understood.

    Six forwards, more where something stands between blocks, with every block's output held: the inputs should be short. What is found holds for any length, and
    every later run checks that its blocks take the same path.
    """
    if any(module.training for module in model.modules()):
        raise InputError(
            "the model is in training mode, whose dropout is random: call eval() first."
        )
    structure = structure_of(model, inputs)
    check_structure(structure)
    tracked = seen(model, inputs, structure.stacks, Everything())
    for run, _ in tracked:
        check_run(run)
    check_unchanged(model, inputs, structure.stacks, tracked)
    check_nothing_passes(model, inputs, structure.stacks)
    check_between(model, inputs, structure.stacks)
    return anatomy_of(structure, [run for run, _ in tracked])
