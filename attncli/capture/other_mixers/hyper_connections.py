"""Matrices that mix the residual streams of a token, in models with several (hyper-connections).

A module that takes a softmax, reaches no other token, and receives streams [batch, token, stream, feature] mixes
streams; what these very streams are multiplied by next, [batch, token, stream, stream], is the matrix, whatever its name.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.residual_stream import find_residual_stream_input
from attncli.capture.other_mixers.uncapturable_attention import UncapturableAttention
from attncli.capture.softmax_attention.post_softmax_mixing import PRODUCTS
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output


class StreamMixing(NamedTuple):
    """One mixing of the streams."""

    path: str
    """The path of its module."""
    matrix: Tensor | None
    """[token, stream out, stream in] in float64; None where the streams were not seen to be multiplied."""


def find_residual_stream_mixings(
    model: nn.Module, uncapturable: Collection[UncapturableAttention], inputs: Inputs
) -> list[StreamMixing]:
    """All mixings of one forward in their order; none where no module receives several streams of a token.

    Modules of one class are treated alike wherever they are: before an MLP they are not tested for attention.
    """
    kinds = {one.kind for one in uncapturable if one.reaches is False}
    modules = {
        module: name for name, module in model.named_modules() if type(module).__name__ in kinds
    }
    if not modules:
        return []
    products = StreamMixingProducts(modules)
    with torch.no_grad(), wrap_forwards(modules, products.run_forward_and_record_mixing), products:
        model(**inputs)
    return products.mixings


class StreamMixingProducts(TorchFunctionMode):
    """Finds the factor by which the streams of a module are multiplied."""

    def __init__(self, modules: Mapping[nn.Module, str]) -> None:
        super().__init__()
        self.modules = modules
        self.mixings: list[StreamMixing] = []
        self.streams: Tensor | None = None
        """The input of the latest module, until it is multiplied."""

    def run_forward_and_record_mixing(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        output = forward(*args, **kwargs)
        stream = find_residual_stream_input(args, kwargs)
        if stream is not None and stream.ndim == 4:
            self.streams = stream
            self.mixings.append(StreamMixing(self.modules[module], None))
        return output

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        if (
            func in PRODUCTS
            and self.streams is not None
            and is_residual_stream_mixing(args, self.streams)
        ):
            matrix = args[0].detach().cpu().double().flatten(0, 1)
            self.mixings[-1] = self.mixings[-1]._replace(matrix=matrix)
            self.streams = None
        return func(*args, **(kwargs or {}))


def is_residual_stream_mixing(args: Args, streams: Tensor) -> bool:
    """Whether these very streams are multiplied by a matrix for each token."""
    if len(args) != 2 or not all(isinstance(each, Tensor) for each in args):
        return False
    matrix, other = args
    count = streams.shape[2]
    same: bool = other is streams or (
        other.shape == streams.shape
        and other.dtype == streams.dtype
        and other.data_ptr() == streams.data_ptr()
    )
    return same and tuple(matrix.shape) == (*streams.shape[:2], count, count)


class BlockStreamMixing(TorchFunctionMode):
    """Finds whether a block multiplies its streams by a matrix for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.mixing_input: Tensor | None = None
        self.mixing: set[nn.Module] = set()
        """The blocks that do."""
        self.block: nn.Module | None = None

    def run_forward_and_record_mixing(
        self, forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        self.mixing_input, self.block = find_residual_stream_input(args, kwargs), module
        try:
            return forward(*args, **kwargs)
        finally:
            self.mixing_input = self.block = None

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        streams = self.mixing_input
        if (
            func in PRODUCTS
            and streams is not None
            and streams.ndim == 4
            and is_residual_stream_mixing(args, streams)
        ):
            assert self.block is not None
            self.mixing.add(self.block)
        return func(*args, **(kwargs or {}))


def find_blocks_mixing_streams(
    model: nn.Module, blocks: Collection[nn.Module], inputs: Inputs
) -> set[nn.Module]:
    """The blocks whose stream is several of each token, which they mix."""
    seen = BlockStreamMixing()
    with torch.no_grad(), wrap_forwards(blocks, seen.run_forward_and_record_mixing), seen:
        model(**inputs)
    return seen.mixing
