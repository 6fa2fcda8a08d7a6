"""The recognised structure of a model, on which the switches act."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile

from attncli.ablation.stream_tracking.ablation_policies import Mixing
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.ablation.stream_tracking.tensor_tags import Key, Kind, StreamPoint
from attncli.capture.model_structure.blocks import BlockStack, ModelStructure

OF_ATTENTION = frozenset({"attention", "mixer", "parallel"})
OF_MLP = frozenset({"mlp", "parallel", "beside"})
ADDITIONS = OF_ATTENTION | OF_MLP

PARALLEL = (
    "attention and MLP run in parallel and share one skip: the attention's skip is that one, "
    "the MLP has none of its own."
)
SEVERAL_MLPS = "a block has several MLPs, each added to the stream: they go off together."
GAINS = "the stream has learned gains or shifts where branches are added: they stay on, whatever is off."
NORMED_BRANCHES = (
    "branches end in a norm before they are added: switching norms off takes those out too."
)


@dataclass(frozen=True)
class BlockAnatomy:
    """A model whose every block was understood."""

    stacks: tuple[BlockStack, ...]
    paths: dict[tuple[str, int], tuple[Kind, ...]]
    """Per stack and layer, the skip additions and norms from a block's input to its output, in order."""
    merges: frozenset[tuple[str, int, Key]]
    """Stack, layer and place where parallel branches are added to each other."""
    branch_norms: frozenset[Key]
    """Norms at the end of a branch, whose result is added to the stream directly."""
    mlp_norms: frozenset[Key]
    """Norms of the stream that belong to the MLP's skip addition before them."""
    mixing: Mixing
    """Branches that mix tokens and are kept as attention is."""
    notes: tuple[str, ...]
    """Notes for readers of an ablation of this model."""

    def has_softmax_free_mixers(self, stack: str) -> bool:
        """Whether anything in a stack mixes tokens without a softmax."""
        return any(name == stack for name, _, _ in self.mixing)

    def has_mlps(self, stack: str) -> bool:
        """Whether any block of a stack adds an MLP."""
        return any(
            name == stack and not OF_MLP.isdisjoint(path) for (name, _), path in self.paths.items()
        )


def describe_block_operations(run: BlockRun) -> tuple[Kind, ...]:
    """Describe the operations between a block's input and its output, for one stream after the other."""
    return tuple(point.kind for points in trace_residual_streams(run) for point in points)


def trace_residual_streams(run: BlockRun) -> list[list[StreamPoint]]:
    """Points of each stream from the block's input to its output."""
    return [output.points_from_block_input() for output in run.outputs if output]


def describe_parts_outside_blocks(structure: ModelStructure) -> Iterator[str]:
    """Describe what is left on around the blocks: the switches only act inside blocks."""
    for one in structure.outside:
        yield f"{one.name} attends {one.where} and stays on: the states measured are the blocks' own."
    for stack in structure.stacks:
        if any(call.second for call in stack.calls):
            yield f"{stack.name}: blocks have two streams; parts of both are off, the states measured are the first's."
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


def build_block_anatomy(
    structure: ModelStructure, runs: list[BlockRun], mixing: Mixing, more: Iterable[str] = ()
) -> BlockAnatomy:
    """Build the anatomy from one run of every block."""
    paths = {(run.stack, run.call.layer): describe_block_operations(run) for run in runs}
    streams = [points for run in runs for points in trace_residual_streams(run)]
    bare = {
        (run.stack, run.call.layer, bare)
        for run in runs
        for points in trace_residual_streams(run)
        for point in points
        for bare in point.bare
    }
    branch_norms = frozenset(what.key for _, _, what in bare if what.kind == "norm")
    kinds = {kind for path in paths.values() for kind in path}
    notes = [PARALLEL] if kinds & {"parallel", "beside"} else []
    if any(sum(point.kind in OF_MLP for point in points) > 1 for points in streams):
        notes.append(SEVERAL_MLPS)
    if any(run.scaled for run in runs):
        notes.append(GAINS)
    if branch_norms:
        notes.append(NORMED_BRANCHES)
    notes += describe_parts_outside_blocks(structure)
    return BlockAnatomy(
        structure.stacks,
        paths,
        merges=frozenset(
            (stack, layer, what.key) for stack, layer, what in bare if what.kind == "merge"
        ),
        branch_norms=branch_norms,
        mlp_norms=frozenset(
            point.key for points in streams for point in iter_mlp_norm_layers(points)
        ),
        mixing=mixing,
        notes=(*more, *notes),
    )


def iter_mlp_norm_layers(points: list[StreamPoint]) -> Iterator[StreamPoint]:
    """Iterate over the norms of the stream that belong to an MLP, such as BERT's second LayerNorm.

    They follow the addition of an MLP that has no norm of its own, at the end of the block; or before its end where every
    addition is followed by one.
    """
    for place, point in enumerate(points):
        if point.kind == "mlp" and not point.pre_normed:
            after = list(takewhile(lambda each: each.kind == "norm", points[place + 1 :]))
            if place + len(after) + 1 == len(points) or is_post_norm_block(points):
                yield from after


def is_post_norm_block(points: list[StreamPoint]) -> bool:
    """Whether every addition of a block is followed by a norm of the sum, and no other norm occurs on the stream."""
    followed = [one.kind == "norm" for one in points[1:]]
    return not any(followed[::2]) and all(followed[1::2]) and len(followed) % 2 == 0
