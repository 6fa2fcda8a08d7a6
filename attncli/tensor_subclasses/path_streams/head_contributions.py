"""Contributions of heads to the last block's output: the frozen network's transpose, block by block.

The frozen network is linear, so what C contributes to the output Y is ⟨G C, V⟩ = ⟨C, G^T V⟩ in the direction V, and one
backward pass gives G^T V everywhere. Blocks are run once more on the way back, from their inputs, so that memory is
needed for one block's maps only.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_output,
    replace_tensor_argument,
)
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.tensor_subclasses.path_streams.partial_streams import (
    FullStreamOnly,
    RecordedAttention,
    Streams,
)
from attncli.tensor_subclasses.path_streams.path_tensor import PathTensor, make_initial_path_tensor
from attncli.tensor_subclasses.path_streams.path_tensor_forward import (
    PathDecomposition,
    PathTensorRun,
    accept_path_tensors,
    refuse_several_attentions,
    run_forward_with_path_tensors,
)

Visit = Callable[[RecordedAttention, Tensor], None]
"""Called with every attention, the last one first, and G^T V at its heads' outputs [1, head, token, value]."""


class RecordedBlock(NamedTuple):
    """One run of a block, to be repeated."""

    forward: Function
    args: Args
    kwargs: Kwargs
    stream: PathTensor
    """The stream among the block's arguments."""
    state: Tensor
    """The full stream at its input [1, token, feature]; a copy, as some blocks write to their input."""


class RecordedRun(PathTensorRun):
    """Records what is needed to run the blocks again."""

    def __init__(self, stack: BlockStack, streams: Streams) -> None:
        super().__init__(stack, streams)
        self.blocks: list[RecordedBlock] = []

    def run_block(
        self, forward: Function, args: Args, kwargs: Kwargs, stream: PathTensor
    ) -> Output:
        others = (*args, *kwargs.values())
        if any(isinstance(each, PathTensor) and each is not stream for each in others):
            raise InputError(
                f"stack {self.stack.name}: a block reads earlier states besides its input, "
                "and their share of the output cannot be separated."
            )
        self.blocks.append(
            RecordedBlock(forward, args, kwargs, stream, stream.full_residual_stream().clone())
        )
        return super().run_block(forward, args, kwargs, stream)


def compute_contributions_by_head(
    model: nn.Module, stack: BlockStack, inputs: Inputs
) -> tuple[Tensor, list[Tensor]]:
    """The last block's output Y, and for each attention ⟨C_h, Y⟩/‖Y‖² [head], C_h all paths through that head."""
    shares: list[Tensor] = []

    def add_contributions_of_heads(attention: RecordedAttention, back: Tensor) -> None:
        shares.append((attention.outputs.detach() * back).sum(dim=(0, 2, 3)))

    with accept_path_tensors(model):
        found, blocks = run_forward_and_record_blocks(model, RecordedRun(stack, Streams()), inputs)
        run_backward_over_blocks(blocks, found.output[None], add_contributions_of_heads)
    whole = found.output.square().sum()
    return found.output, [share / whole for share in reversed(shares)]


def run_forward_and_record_blocks(
    model: nn.Module, passage: RecordedRun, inputs: Inputs
) -> tuple[PathDecomposition, list[RecordedBlock]]:
    """Run forward to the last block's output; blocks that form no chain are refused."""
    stack = passage.stack
    if not all(call.joined for call in stack.calls):
        raise InputError(
            f"stack {stack.name}: something runs between its blocks that attn does not understand."
        )
    with torch.no_grad():
        found, _ = run_forward_with_path_tensors(model, passage, inputs)
    refuse_several_attentions(found, stack)
    return found, passage.blocks


def run_backward_over_blocks(blocks: list[RecordedBlock], target: Tensor, visit: Visit) -> Tensor:
    """Run backward from the last block's output to the first one's input [1, token, feature]."""
    back = target
    for block in reversed(blocks):
        streams = FullStreamOnly()
        with torch.enable_grad():
            state = block.state.requires_grad_()
            stream = make_initial_path_tensor(state, streams)
            args, kwargs = replace_tensor_argument(block.args, block.kwargs, block.stream, stream)
            output = find_residual_stream_output(block.forward(*args, **kwargs))
        assert isinstance(output, PathTensor)  # it was one on the forward pass
        outputs = [attention.outputs for attention in streams.attentions]
        back, *at_heads = torch.autograd.grad(output.numbers, [state, *outputs], back)
        for attention, own in zip(streams.attentions, at_heads, strict=True):
            visit(attention, own)
    return back
