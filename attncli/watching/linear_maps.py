"""The matrix A of one call with y = A v, read off a strip of rows at a time.

A row of A is what one output token takes from the values of all tokens: the derivative of the call by its values,
which is the same wherever it is taken, as the call is linear in them. Where all features of a head are mixed alike,
each feature gives another row.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.watching.kernel_calls import KernelCall
from attncli.watching.linear_arguments import Values

ROWS = 64
"""That are read off at once, where a kernel takes values of any width."""


class LinearStrip(NamedTuple):
    """Some rows of the maps of one call."""

    weights: Tensor
    """[head, row, key], of both signs."""
    first: int


class LinearMap:
    """The maps of one call, all of its heads."""

    def __init__(self, call: KernelCall, values: Values, heads: Tensor | None = None) -> None:
        self.values = values
        self.heads = heads
        """The numbers of those that are read; None: all."""
        self.call = call.constants()
        self.given = self.call.arguments()[values.key]
        self.tokens = self.given.shape[values.token]
        shape = list(self.given.shape)
        if values.shared is not None and values.wide:
            shape[values.shared] = min(ROWS, self.tokens)
        self.leaf = self.given.new_zeros(shape).requires_grad_()
        with torch.enable_grad():
            self.output = self.call.output(values.key, self.leaf)

    @property
    def at_once(self) -> int:
        """Rows that one pass back through the call gives."""
        return 1 if self.values.shared is None else self.leaf.shape[self.values.shared]

    def as_heads(self, tensor: Tensor) -> Tensor:
        """[head, token, feature] of values or outputs."""
        found = tensor.movedim(self.values.token, -1)[0]
        if self.values.shared is not None:
            place = self.values.shared - (1 if self.values.token > self.values.shared else 2)
            found = found.movedim(place, -1)
        else:
            found = found[..., None]
        found = found.reshape(-1, *found.shape[-2:])
        return found if self.heads is None else found[self.heads]

    def strips(self, rows: int) -> Iterator[LinearStrip]:
        """All rows in order, so many at a time."""
        for first in range(0, self.tokens, rows):
            last = min(first + rows, self.tokens)
            parts = [
                self.rows(start, min(start + self.at_once, last))
                for start in range(first, last, self.at_once)
            ]
            yield LinearStrip(parts[0] if len(parts) == 1 else torch.cat(parts, 1), first)

    def rows(self, first: int, last: int) -> Tensor:
        """[head, row, key]."""
        wanted = torch.zeros_like(self.output)
        along = wanted.movedim(self.values.token, 0)
        if self.values.shared is None:
            along[first] = 1.0
        else:
            features = wanted.movedim((self.values.token, self.values.shared), (0, 1))
            place = torch.arange(last - first, device=wanted.device)
            features[first + place, place] = 1.0
        (found,) = torch.autograd.grad(self.output, self.leaf, wanted, retain_graph=True)
        return self.as_heads(found).transpose(-2, -1)[:, : last - first]

    def applied(self, strip: LinearStrip) -> Tensor:
        """[head, row, feature]: what these rows make of the values."""
        return strip.weights @ self.as_heads(self.given)

    def outputs(self) -> Tensor:
        """[head, token, feature]: what the call makes of its values beyond what it makes of none."""
        with torch.no_grad():
            key = self.values.key
            found = self.call.output(key, self.given)
            return self.as_heads(found - self.call.output(key, torch.zeros_like(self.given)))
