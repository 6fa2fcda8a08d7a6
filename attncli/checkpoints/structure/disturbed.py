"""A model whose blocks are given their stream with the last bits disturbed: a second sample of its rounding.

Each number x becomes x (1 ± ε/2), the sign drawn at random and apart for every token and feature, ε that of its type. That
is one last bit, which storing the stream rounds away, and enough for every sum, product and function inside the block to round
anew: what two such passes agree in is known, and what they differ in is rounding, in its own size, whatever the width,
the depth, the length, or the common row have made of it. Sums in another order would have to be made for every function
that sums, and would leave tokens that coincide to the last bit as they are; noise on every single result would say what
the noise does, and not what rounding does.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from attncli.checkpoints.structure.blocks import Stack, blocks_of
from attncli.checkpoints.structure.stream_places import replaced, taken
from attncli.checkpoints.structure.wrapping import around_forwards


class Disturbance:
    """One draw of signs; the same in every run of a command."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def of(self, numbers: Tensor) -> Tensor:
        """x (1 ± ε/2) in the type of x."""
        draws = torch.randint(0, 2, numbers.shape, generator=self.generator, dtype=torch.int8)
        signs = (2 * draws - 1).to(numbers.device, numbers.dtype)
        return numbers + signs * (numbers * (torch.finfo(numbers.dtype).eps / 2))


@contextmanager
def disturbed(stacks: tuple[Stack, ...], disturbance: Disturbance) -> Iterator[None]:
    """Within, every block is given its stream disturbed; to be entered last, so that whoever watches sees it so."""

    def around(forward: Any, module: nn.Module, args: Any, kwargs: Any) -> Any:
        stream = taken(args, kwargs)
        if stream is not None:
            args, kwargs = replaced(args, kwargs, stream, disturbance.of(stream))
        return forward(*args, **kwargs)

    with around_forwards(blocks_of(stacks), around):
        yield
