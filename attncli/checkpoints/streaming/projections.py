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
        self.context: Tensor | None = None

    def take(self, site: Site, strip: Strip) -> None:
        """The outputs of one more strip."""
        given = strip.outputs
        if strip.first_query == 0:
            self.site, self.context = None, None
            if given is not None:
                shape = (len(given), strip.queries, *given.shape[2:])
                self.site, self.context = site, given.new_empty(shape)
        if given is not None and self.context is not None:
            start = strip.first_query
            self.context[:, start : start + given.shape[1]] = given

    def before(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """A linear layer is about to run."""
        if self.site is None or self.context is None or not args:
            return
        given, context = args[0], self.context
        width = context.shape[2] * context.shape[3]
        if not isinstance(given, Tensor) or given.shape[-1] != width:
            return
        if given.numel() != context.numel():
            return
        if torch.equal(given.reshape(context.shape), context.to(given.dtype)):
            site, self.site, self.context = self.site, None, None
            self.found(site, context, by_head(module, context.shape[2]))


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
