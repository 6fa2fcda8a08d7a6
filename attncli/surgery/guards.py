"""What must hold of every block before a part of it is switched off; what does not is refused by name."""

from collections.abc import Iterable
from typing import NoReturn

from attncli.errors import InputError
from attncli.surgery.anatomy import lineages
from attncli.surgery.block_run import BlockRun
from attncli.surgery.tags import StreamPoint
from attncli.watching.blocks import BlockCall, Structure

OF_ATTENTION = frozenset({"attention", "parallel"})
OF_MLP = frozenset({"mlp", "parallel", "beside"})
ADDITIONS = OF_ATTENTION | OF_MLP


def check_structure(structure: Structure) -> None:
    """Every block attends, and nothing attends between two blocks, nor does more than their state pass there."""
    for one in structure.outside:
        if one.between:
            raise InputError(
                f"{one.name} attends {one.where}, outside every block: switching parts of the blocks off would leave it on."
            )
    for stack in structure.stacks:
        for call in stack.calls:
            check_call(stack.name, call)


def check_call(stack: str, call: BlockCall) -> None:
    """The block attends, and takes what the one before it gave."""
    if not call.attention:
        raise InputError(
            f"{described(stack, call)} has no softmax attention while others of its stack have: "
            "a hybrid cannot be ablated as one."
        )
    if not call.alone:
        raise InputError(
            f"{described(stack, call)} is given something else than the block before it returns, made of more than that: "
            "what happens between them is not understood."
        )
    if call.borrows:
        raise InputError(
            f"{described(stack, call)} is given more of earlier states than the block before it returns: "
            "switching its parts off would leave that on."
        )


def check_run(run: BlockRun) -> None:
    """Every addition on the way from a block's input to its output is understood: some of attention, one of an MLP."""
    if not run.outputs or not all(run.outputs):
        refuse(run, f"its output is not its input plus branches: {additions_of(run)}")
    paths = lineages(run)
    additions = {point for point in run.points.values() if point.kind in ADDITIONS}
    aside = additions.difference(*paths)
    if aside:
        refuse(run, f"{listed(aside)} is not on the way to the output")
    for path in paths:
        if not any(point.kind in OF_ATTENTION for point in path):
            refuse(run, f"no addition of an attention branch is recognised: {additions_of(run)}")
        check_mlp(run, path)
        check_merges(run, path)
    check_attention(run)
    if run.strange_norms:
        names = ", ".join(sorted(map(str, run.strange_norms)))
        refuse(run, f"the norm {names} is fed by neither the stream nor a projection of it")


def check_mlp(run: BlockRun, path: list[StreamPoint]) -> None:
    """One MLP, and no norm that may belong to it or to what comes after."""
    places = [place for place, point in enumerate(path) if point.kind in OF_MLP]
    if len(places) != 1:
        refuse(run, f"one addition of an MLP was expected: {additions_of(run)}")
    after = [point.kind for point in path[places[0] + 1 :]]
    if "norm" in after and ADDITIONS.intersection(after):
        refuse(run, f"a norm follows {path[places[0]].key} that may belong to what comes next")


def check_attention(run: BlockRun) -> None:
    """Every attention call ends in exactly one addition."""
    for reached in run.reached:
        if len(reached) != 1:
            where = f"the additions {listed(reached)}" if reached else "no recognised addition"
            refuse(run, f"an attention call reaches {where}: {additions_of(run)}")


def check_merges(run: BlockRun, path: list[StreamPoint]) -> None:
    """Two branches are merged at one place and once, so that switching the MLP off there means one thing."""
    merges = [bare.key for point in path for bare in point.bare if bare.kind == "merge"]
    if len(merges) > 1 or any(run.merges.count(site) != 1 for site in merges):
        refuse(run, f"more than two branches are merged: {', '.join(map(str, run.merges))}")


def refuse(run: BlockRun, why: str) -> NoReturn:
    raise InputError(f"{described(run.stack, run.call)} cannot be ablated: {why}.")


def described(stack: str, call: BlockCall) -> str:
    return f"block {call.layer} of {stack} ({call.name}, {type(call.module).__name__})"


def additions_of(run: BlockRun) -> str:
    """All that was added to the stream, recognised or not, with the places in the code."""
    skips = listed(point for point in run.points.values() if point.kind in ADDITIONS)
    strange = ", ".join(sorted({str(site) for site in run.strange}))
    return f"recognised {skips or 'no addition'}; not recognised {strange or 'none'}"


def listed(points: Iterable[StreamPoint]) -> str:
    """Additions with their places in the code."""
    return ", ".join(sorted(f"{point.kind} at {point.key}" for point in points))
