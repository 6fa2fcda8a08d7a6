"""Which linear layer takes the heads' outputs into the stream: the first whose input is exactly these.

Nothing is told from names. Where outputs are gated, mixed or normed on the way, no layer is found, and none is guessed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from attncli.checkpoints.streaming.interface import Strip
from attncli.checkpoints.streaming.sites import Site

Found = Callable[[Site, Tensor, Tensor], None]
"""found(site, context [batch, query, head, value], projection [head, value, feature])"""


class Projections:
    """Collects the outputs of one attention at a time until a linear layer takes them."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.site: Site | None = None
        self.parts: list[Tensor] = []

    def take(self, site: Site, strip: Strip) -> None:
        """The outputs of one more strip."""
        if strip.first_query == 0:
            self.site, self.parts = site, []
        if strip.outputs is None:
            self.site = None
        else:
            self.parts.append(strip.outputs)

    def before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A linear layer is about to run."""
        if self.site is None or not args or not isinstance(args[0], Tensor):
            return
        given, (batch, _, heads, width) = args[0], self.parts[0].shape
        queries = sum(part.shape[1] for part in self.parts)
        if given.numel() != batch * queries * heads * width or given.shape[-1] != heads * width:
            return
        context = torch.cat(self.parts, dim=1)
        if torch.equal(given.reshape(context.shape), context.to(given.dtype)):
            site, self.site, self.parts = self.site, None, []
            self.found(site, context, by_head(module, heads))


def by_head(module: nn.Module, heads: int) -> Tensor:
    """[head, value, feature]: the layer's weights, from its input to its output."""
    weight = module.get_parameter("weight").detach()
    turned = weight if isinstance(module, Conv1D) else weight.T
    return turned.unflatten(0, (heads, -1))  # type: ignore[no-untyped-call, no-any-return]


@contextmanager
def watching_projections(model: nn.Module, found: Found) -> Iterator[Callable[[Site, Strip], None]]:
    """Within, hand the strips of a streamed forward to what this yields; projections come to `found` as they happen."""
    watch = Projections(found)
    handles = [
        module.register_forward_pre_hook(watch.before)
        for module in model.modules()
        if isinstance(module, (nn.Linear, Conv1D))
    ]
    try:
        yield watch.take
    finally:
        for handle in handles:
            handle.remove()
