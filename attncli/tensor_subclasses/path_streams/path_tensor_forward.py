"""Run a stack of blocks through its own code with several streams in one batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from attncli.capture.attention_capture import replace_eager_attention
from attncli.capture.attention_function_registry import force_eager_attention
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_errors import FAILURES
from attncli.capture.model_structure.blocks import BlockStack, find_block_stacks
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    find_residual_stream_output,
    replace_tensor_argument,
)
from attncli.errors import InputError, is_memory_error, shorten_error_text
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.models.loading.loaded_model import remove_model_head
from attncli.models.loading.random_init import make_random_init_model
from attncli.tensor_subclasses.path_streams import path_tensor_shape_functions as shapes  # noqa: F401  (they enter their rules)
from attncli.tensor_subclasses.path_streams.norm_layers_and_activations import (
    wrap_norm_layers_and_activations,
)
from attncli.tensor_subclasses.path_streams.partial_streams import (
    LengthStreams,
    PathStreams,
    Streams,
)
from attncli.tensor_subclasses.path_streams.path_tensor import PathTensor, make_initial_path_tensor
from attncli.tensor_subclasses.path_streams.path_tensor_attention import (
    compute_attention_of_path_streams,
)
from attncli.tensor_subclasses.residual_split.split_tensor_forward import StopAfterLastBlock

GoOn = Callable[[Tensor], Tensor]
"""Turns the partial streams [length, token, feature] into the input [batch, token, feature] of the rest of the model."""


class PathDecomposition(NamedTuple):
    """The last block's output: full, and split into parts."""

    output: Tensor
    """[token, feature]"""
    terms: Tensor
    """[partial stream, token, feature]"""
    heads: tuple[int, ...]
    """The number of heads of each attention, in order."""


def decompose_by_path_length(
    model: nn.Module,
    stack: BlockStack,
    inputs: Inputs,
    count_attention: bool,
    go_on: GoOn | None = None,
) -> tuple[PathDecomposition, Any]:
    """Decompose by path length in one forward pass; `go_on` also runs the rest of the model, whose output comes second."""
    steps = sum(call.attention for call in stack.calls) if count_attention else len(stack.calls)

    def build_streams_per_path_length() -> LengthStreams:
        return LengthStreams(attentions=steps) if count_attention else LengthStreams(mlps=steps)

    with torch.no_grad(), accept_path_tensors(model):
        found, output = run_forward_with_path_tensors(
            model, PathTensorRun(stack, build_streams_per_path_length(), go_on), inputs
        )

    def run_longest_paths_with_random_weights() -> Tensor:
        random_init = run_paths_with_random_weights(
            model, stack, inputs, build_streams_per_path_length()
        )
        return found.terms[-1] if random_init is None else random_init.terms[-1]

    check_path_step_counts(
        found, stack, steps, count_attention, run_longest_paths_with_random_weights
    )
    return found, output


def decompose_by_attention_and_mlp_length(
    model: nn.Module, stack: BlockStack, inputs: Inputs
) -> PathDecomposition:
    """Decompose into terms [attentions, MLPs, token, feature], by how many of each a path went through."""
    attentions = sum(call.attention for call in stack.calls)
    steps = (attentions, len(stack.calls))
    with torch.no_grad(), accept_path_tensors(model):
        found, _ = run_forward_with_path_tensors(
            model, PathTensorRun(stack, LengthStreams(*steps)), inputs
        )

    def arrange_path_terms_by_length(decomposition: PathDecomposition) -> Tensor:
        return decomposition.terms.reshape(
            1 + attentions, 1 + len(stack.calls), *decomposition.output.shape
        )

    for counted, other in ((0, 1), (1, 0)):

        def run_longest_paths_with_random_weights(other: int = other) -> Tensor:
            random_init = run_paths_with_random_weights(model, stack, inputs, LengthStreams(*steps))
            return arrange_path_terms_by_length(random_init or found).sum(dim=other)[-1]

        one_kind = found._replace(terms=arrange_path_terms_by_length(found).sum(dim=other))
        check_path_step_counts(
            one_kind, stack, steps[counted], counted == 0, run_longest_paths_with_random_weights
        )
    return found._replace(terms=arrange_path_terms_by_length(found))


def run_single_paths(
    model: nn.Module, stack: BlockStack, inputs: Inputs, paths: Sequence[Sequence[int]]
) -> PathDecomposition:
    """Contributions of single paths to the last block's output; a path chooses 0 or a head from 1 on at every attention."""
    with torch.no_grad(), accept_path_tensors(model):
        found, _ = run_forward_with_path_tensors(
            model, PathTensorRun(stack, PathStreams(paths)), inputs
        )
    refuse_several_attentions(found, stack)
    return found


@contextmanager
def accept_path_tensors(model: nn.Module) -> Iterator[None]:
    """Within, the model's attention, norms and activations accept path tensors."""
    with (
        force_eager_attention(model),
        replace_eager_attention(compute_attention_of_path_streams),
        wrap_norm_layers_and_activations(model),
    ):
        yield


def run_forward_with_path_tensors(
    model: nn.Module, passage: "PathTensorRun", inputs: Inputs
) -> tuple[PathDecomposition, Any]:
    """Run one forward pass with the passage's tensor as the stream."""
    blocks = {call.module for call in passage.stack.calls}
    output = None
    try:
        with wrap_forwards(blocks, passage.wrap_forward):
            output = model(**inputs)
    except StopAfterLastBlock:
        pass
    except FAILURES as error:  # torch's and the models' errors for shapes that do not fit
        if is_memory_error(error):
            raise
        raise InputError(
            f"{type(model).__name__} cannot be run with parts of its stream as texts of one batch "
            f"({shorten_error_text(error)}): this architecture cannot be decomposed."
        ) from error
    if passage.decomposition is None:
        raise InputError(f"stack {passage.stack.name} was not run to its end.")
    return passage.decomposition, output


def run_paths_with_random_weights(
    model: nn.Module, stack: BlockStack, inputs: Inputs, streams: Streams
) -> PathDecomposition | None:
    """Run the same paths with random weights: terms that are zero there too are zero by structure, not by a weight of zero.

    None where no random-init model can be made, or it has other blocks.
    """
    if not isinstance(model, PreTrainedModel):
        return None
    random_init = remove_model_head(make_random_init_model(model, seed=0))
    alike = [each for each in find_block_stacks(random_init, inputs) if each.name == stack.name]
    if not alike or len(alike[0].calls) != len(stack.calls):
        return None
    own = alike[0]
    with torch.no_grad(), accept_path_tensors(random_init):
        found, _ = run_forward_with_path_tensors(random_init, PathTensorRun(own, streams), inputs)
    return found


def check_path_step_counts(
    decomposition: PathDecomposition,
    stack: BlockStack,
    steps: int,
    count_attention: bool,
    longest_with_random_weights: Callable[[], Tensor],
) -> None:
    """Check that every block took its steps, so that no two path lengths are mixed up.

    The longest paths may be zero where a block's weights are.
    """
    seen = len(decomposition.heads) if count_attention else steps
    if seen != steps or not (
        bool(decomposition.terms[-1].any()) or bool(longest_with_random_weights().any())
    ):
        raise InputError(
            f"stack {stack.name}: {steps} blocks make {'attention' if count_attention else 'MLP'} steps, but not just "
            "one each: their paths have no length that is understood here."
        )


def repeat_states_per_path_stream(value: Output, stream: PathTensor) -> Output:
    """Repeat another stack's states [1, token, feature] once per stream: blocks read the batch size off them."""
    states = type(value) is Tensor and value.dim() == 3 and value.is_floating_point()
    return (
        value.expand(stream.streams.path_stream_count, -1, -1)
        if states and len(value) == 1
        else value
    )


def refuse_several_attentions(decomposition: PathDecomposition, stack: BlockStack) -> None:
    if len(decomposition.heads) != sum(call.attention for call in stack.calls):
        raise InputError(f"stack {stack.name}: a block attends more than once, or not as expected.")


class PathTensorRun:
    """Makes the stream a path tensor from the first block's input to the last one's output."""

    def __init__(self, stack: BlockStack, streams: Streams, go_on: GoOn | None = None) -> None:
        self.stack = stack
        self.streams = streams
        self.go_on = go_on
        self.done = 0
        self.decomposition: PathDecomposition | None = None

    def wrap_forward(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        stream = find_residual_stream_input(args, kwargs)
        if stream is None:
            raise InputError(f"{type(module).__name__} is given no stream of tokens.")
        if isinstance(stream, PathTensor):
            taken_in = stream.mark_block_input()
        else:
            taken_in = self.make_first_path_tensor(stream, module)
        output = self.run_block(
            forward, *replace_tensor_argument(args, kwargs, stream, taken_in), taken_in
        )
        self.done += 1
        if self.done < len(self.stack.calls):
            return output
        state = find_residual_stream_output(output)
        if not isinstance(state, PathTensor) or state.dim() != 3:
            raise InputError(f"the stream of tokens is lost in {type(module).__name__}.")
        self.decomposition = PathDecomposition(
            state.numbers[0], state.numbers[1:], tuple(self.streams.heads)
        )
        if self.go_on is None:
            raise StopAfterLastBlock
        rest = self.go_on(self.decomposition.terms)
        return (
            tuple(rest if part is state else part for part in output)
            if isinstance(output, tuple)
            else rest
        )

    def run_block(
        self, forward: Function, args: Args, kwargs: Kwargs, stream: PathTensor
    ) -> Output:
        """Run the block itself."""
        args = tuple(repeat_states_per_path_stream(value, stream) for value in args)
        kwargs = {
            name: repeat_states_per_path_stream(value, stream) for name, value in kwargs.items()
        }
        return forward(*args, **kwargs)

    def make_first_path_tensor(self, stream: Tensor, module: nn.Module) -> PathTensor:
        if self.done or stream.dim() != 3 or stream.shape[0] != 1:
            raise InputError(
                f"one text's states [1, token, feature] must go through all blocks, which "
                f"{type(module).__name__} does not take."
            )
        return make_initial_path_tensor(stream, self.streams)
