"""The matrices that mix the streams of a token, where a model has several residual streams (hyper-connections).

A module that takes a softmax and reaches no other token, and is given the streams [batch, token, stream, feature],
mixes streams; what these very streams are then multiplied with, [batch, token, stream, stream], is the matrix, whatever
the model's code calls it.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.capture.forward_wrappers import around_forwards
from attncli.capture.other_mixers.uncapturable_attention import LeftOut
from attncli.capture.stacks.residual_stream_arguments import taken
from attncli.capture.strips.value_products import PRODUCTS


class Mixed(NamedTuple):
    """One mixing of the streams."""

    path: str
    """Of the module that it belongs to."""
    matrix: Tensor | None
    """[token, stream out, stream in] in float64; None where the streams were not seen to be multiplied."""


def mixings(model: nn.Module, found: Collection[LeftOut], inputs: Mapping[str, Any]) -> list[Mixed]:
    """All mixings of one forward in their order; none where no module is given several streams of a token.

    Those of one class do the same wherever they stand: before an MLP they are not looked at for attention.
    """
    kinds = {one.kind for one in found if one.reaches is False}
    modules = {
        module: name for name, module in model.named_modules() if type(module).__name__ in kinds
    }
    if not modules:
        return []
    products = StreamProducts(modules)
    with torch.no_grad(), around_forwards(modules, products.around), products:
        model(**inputs)
    return products.found


class StreamProducts(TorchFunctionMode):
    """Sees by what the streams are multiplied that a module was given."""

    def __init__(self, modules: Mapping[nn.Module, str]) -> None:
        super().__init__()
        self.modules = modules
        self.found: list[Mixed] = []
        self.streams: Tensor | None = None
        """What the last of the modules was given, until it is multiplied."""

    def around(self, forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        given = taken(args, kwargs)
        if given is not None and given.ndim == 4:
            self.streams = given
            self.found.append(Mixed(self.modules[module], None))
        return output

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func in PRODUCTS and self.streams is not None and mixes(args, self.streams):
            matrix = args[0].detach().double().cpu().flatten(0, 1)
            self.found[-1] = self.found[-1]._replace(matrix=matrix)
            self.streams = None
        return func(*args, **(kwargs or {}))


def mixes(args: Sequence[Any], streams: Tensor) -> bool:
    """Whether a matrix for each token is multiplied with these very streams."""
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


class OwnStreams(TorchFunctionMode):
    """Sees whether a block multiplies the streams that it is given by a matrix for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.given: Tensor | None = None
        self.mixing: set[nn.Module] = set()
        """The blocks that do."""
        self.block: nn.Module | None = None

    def around(self, forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        self.given, self.block = taken(args, kwargs), module
        try:
            return forward(*args, **kwargs)
        finally:
            self.given = self.block = None

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        streams = self.given
        if func in PRODUCTS and streams is not None and streams.ndim == 4 and mixes(args, streams):
            assert self.block is not None
            self.mixing.add(self.block)
        return func(*args, **(kwargs or {}))


def blocks_that_mix_streams(
    model: nn.Module, blocks: Collection[nn.Module], inputs: Mapping[str, Any]
) -> set[nn.Module]:
    """Those of these blocks whose stream is several of each token, which they mix."""
    seen = OwnStreams()
    with torch.no_grad(), around_forwards(blocks, seen.around), seen:
        model(**inputs)
    return seen.mixing
