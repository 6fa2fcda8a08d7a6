"""What was recognised in a model: what the switches act on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from attncli.surgery.block_run import BlockRun
from attncli.surgery.tags import Key, Kind, StreamPoint
from attncli.watching.blocks import Stack, Structure

PARALLEL = (
    "attention and MLP run in parallel and share one skip: the attention's skip is that one, "
    "the MLP has none of its own."
)
NORMED_BRANCHES = (
    "branches end in a norm before they are added: switching norms off takes those out too."
)


@dataclass(frozen=True)
class Anatomy:
    """A model whose every block was understood."""

    stacks: tuple[Stack, ...]
    paths: dict[tuple[str, int], tuple[Kind, ...]]
    """Per stack and layer the skip additions and norms from a block's input to its output, in order."""
    merges: frozenset[tuple[str, int, Key]]
    """Stack, layer and place where parallel branches are added to each other."""
    branch_norms: frozenset[Key]
    """Norms at the end of a branch, whose result is added to the stream as it is."""
    mlp_norms: frozenset[Key]
    """Norms of the stream between the MLP's skip addition and the end of the block."""
    notes: tuple[str, ...]
    """What the reader of an ablation should know about this model."""


def path_of(run: BlockRun) -> tuple[Kind, ...]:
    """What lies between a block's input and its output, for one stream after the other."""
    return tuple(point.kind for points in lineages(run) for point in points)


def lineages(run: BlockRun) -> list[list[StreamPoint]]:
    """The points of each stream from the block's input to its output."""
    return [output.lineage() for output in run.outputs if output]


def left_on(structure: Structure) -> Iterator[str]:
    """What happens around the blocks, in words: the switches are about the blocks' own parts."""
    for one in structure.outside:
        yield f"{one.name} attends {one.where} and stays on: the states measured are the blocks' own."
    for stack in structure.stacks:
        gaps = [
            f"{before.layer} and {after.layer}"
            for before, after in pairwise(stack.calls)
            if not after.joined
        ]
        if gaps:
            yield (
                f"{stack.name}: what the model makes of a state between blocks {', '.join(gaps)} stays on; "
                "the states measured are what the blocks return."
            )


def anatomy_of(structure: Structure, runs: list[BlockRun]) -> Anatomy:
    """The anatomy, from one run of every block."""
    paths = {(run.stack, run.call.layer): path_of(run) for run in runs}
    streams = [points for run in runs for points in lineages(run)]
    bare = {
        (run.stack, run.call.layer, bare)
        for run in runs
        for points in lineages(run)
        for point in points
        for bare in point.bare
    }
    branch_norms = frozenset(what.key for _, _, what in bare if what.kind == "norm")
    kinds = {kind for path in paths.values() for kind in path}
    notes = [PARALLEL] if kinds & {"parallel", "beside"} else []
    if branch_norms:
        notes.append(NORMED_BRANCHES)
    notes += left_on(structure)
    return Anatomy(
        structure.stacks,
        paths,
        merges=frozenset(
            (stack, layer, what.key) for stack, layer, what in bare if what.kind == "merge"
        ),
        branch_norms=branch_norms,
        mlp_norms=frozenset(point.key for points in streams for point in after_mlp(points)),
        notes=tuple(notes),
    )


def after_mlp(points: list[StreamPoint]) -> Iterable[StreamPoint]:
    """The norms at the end of a block whose last addition is the MLP's: BERT's second LayerNorm."""
    norms: list[StreamPoint] = []
    for point in reversed(points):
        if point.kind != "norm":
            return norms if point.kind == "mlp" else []
        norms.append(point)
    return []
