"""The matrix A of one call with y = A v, a strip of rows at a time, in whichever of three ways its shortcuts allow.

From the state: the call on the rows of a strip, with columns of the identity for values, goes on from the state that the
rows before have left for these columns. By columns: batches of columns of the identity, where the whole of the few maps
that are looked at may be held. By rows: the derivative of one output by all values, which is the same wherever it is
taken, as the call is linear in them; where all features of a head are mixed alike, each gives another row.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attncli.capture.linear_attention.calls_inside_mixers import KernelCall
from attncli.capture.linear_attention.linearity_tests import ValueArgument
from attncli.capture.linear_attention.shortcuts_for_long_linear_maps import (
    FasterMapMethods,
    RecurrentState,
    repeat_kernel_call_along_batch,
    select_channels_in_call_arguments,
)

NONE = FasterMapMethods()

ROWS = 64
"""How many rows to compute at once, where a kernel takes values of any width."""
COLUMNS = 2**20
"""Numbers of values that are processed in one batch of columns."""


class LinearMapStrip(NamedTuple):
    """Some rows of the maps of one call."""

    weights: Tensor
    """[head, row, key], of both signs; keys after the last that the rows see may be left out."""
    first: int


def does_output_combine_tokens(call: KernelCall, values: ValueArgument) -> bool:
    """Whether an output combines several values; sorting, shifting and gathering tokens do not."""
    strips = LinearAttentionMap(call, values).iter_map_rows_from_gradients(ROWS)
    return any(bool(((strip.weights != 0.0).sum(dim=-1) > 1).any()) for strip in strips)


class LinearAttentionMap:
    """The maps of one call, for the heads that are measured."""

    def __init__(
        self,
        call: KernelCall,
        values: ValueArgument,
        heads: Sequence[int] | None = None,
        shortcuts: FasterMapMethods = NONE,
    ) -> None:
        call = call.copy_detached_in_float32()
        if heads is not None and shortcuts.channels is not None:
            call, heads = select_channels_in_call_arguments(call, shortcuts.channels, heads), None
        self.call, self.values, self.shortcuts = call, values, shortcuts
        self.heads = None if heads is None else torch.tensor(heads)
        """The head numbers to compute; None: all."""
        self.value_tensor = self.call.select_floating_arguments()[values.key]
        self.tokens = self.value_tensor.shape[values.token]

    def split_tensor_into_heads(self, tensor: Tensor) -> Tensor:
        """Values or outputs as [batch, head, token, feature]."""
        token, shared = self.values.token, self.values.shared_axis
        if shared is None:
            found = tensor.movedim(token, -1)[..., None]
        else:
            found = tensor.movedim((token, shared), (-2, -1))
        found = found.reshape(len(tensor), -1, *found.shape[-2:])
        return found if self.heads is None else found[:, self.heads.to(found.device)]

    def iter_map_rows(self, rows: int, memory: int) -> Iterator[LinearMapStrip]:
        """All rows in order, so many at a time; whole maps may take `memory` bytes."""
        if self.shortcuts.state is not None:
            return self.iter_map_rows_from_recurrent_state(self.shortcuts.state, rows)
        heads = self.split_tensor_into_heads(self.value_tensor).shape[1]
        size = heads * self.tokens**2 * self.value_tensor.element_size()
        if self.shortcuts.batched and self.values.shared_axis is None and size <= memory:
            return self.iter_map_rows_from_batched_columns(rows)
        return self.iter_map_rows_from_gradients(rows)

    def iter_map_rows_from_recurrent_state(
        self, carried: RecurrentState, rows: int
    ) -> Iterator[LinearMapStrip]:
        values, shared = self.values, self.values.shared_axis
        assert shared is not None
        state: Tensor | None = None
        for first in range(0, self.tokens, rows):
            last = min(first + rows, self.tokens)
            shape = list(self.value_tensor.shape)
            shape[values.token], shape[shared] = last - first, last
            columns = self.value_tensor.new_zeros(shape)
            place = torch.arange(last - first, device=columns.device)
            columns.movedim((values.token, shared), (0, 1))[place, first + place] = 1.0
            if state is not None:
                wider = list(state.shape)
                wider[carried.width] = last - first
                state = torch.cat([state, state.new_zeros(wider)], carried.width)
            with torch.no_grad():
                part = carried.select_tokens_of_call_arguments(self.call, first, last)
                output, state = carried.run_from_recurrent_state(part, values.key, columns, state)
            yield LinearMapStrip(self.split_tensor_into_heads(output)[0], first)

    def iter_map_rows_from_batched_columns(self, rows: int) -> Iterator[LinearMapStrip]:
        """Compute every channel at once, a batch of columns at a time."""
        whole: Tensor | None = None
        at_once = max(1, min(self.tokens, COLUMNS // self.value_tensor.numel()))
        nothing = self.call.compute_output_with_new_argument(
            self.values.key, torch.zeros_like(self.value_tensor)
        )
        for first in range(0, self.tokens, at_once):
            size = min(at_once, self.tokens - first)
            columns = self.value_tensor.new_zeros((size, *self.value_tensor.shape[1:]))
            place = torch.arange(size, device=columns.device)
            columns.movedim(self.values.token, 1)[place, first + place] = 1.0
            found = (
                repeat_kernel_call_along_batch(self.call, size).compute_output_with_new_argument(
                    self.values.key, columns
                )
                - nothing
            )
            part = self.split_tensor_into_heads(found)[..., 0].permute(1, 2, 0)  # [head, row, key]
            if whole is None:
                whole = part.new_empty((len(part), self.tokens, self.tokens))
            whole[..., first : first + size] = part
        assert whole is not None
        for first in range(0, self.tokens, rows):
            yield LinearMapStrip(whole[:, first : first + rows], first)

    def iter_map_rows_from_gradients(self, rows: int) -> Iterator[LinearMapStrip]:
        derive, at_once = self.make_map_row_function()
        for first in range(0, self.tokens, rows):
            last = min(first + rows, self.tokens)
            parts = [
                derive(start, min(start + at_once, last)) for start in range(first, last, at_once)
            ]
            yield LinearMapStrip(torch.cat(parts, 1), first)

    def make_map_row_function(self) -> tuple[Callable[[int, int], Tensor], int]:
        """A function that computes [head, row, key] for some rows, and how many rows at a time."""
        token, shared = self.values.token, self.values.shared_axis
        shape = list(self.value_tensor.shape)
        if shared is not None and self.values.wide:
            shape[shared] = min(ROWS, self.tokens)
        leaf = self.value_tensor.new_zeros(shape).requires_grad_()
        with torch.enable_grad():
            output = self.call.compute_output_with_new_argument(self.values.key, leaf)

        def compute_map_rows(first: int, last: int) -> Tensor:
            expected = torch.zeros_like(output)
            if shared is None:
                expected.movedim(token, 0)[first] = 1.0
            else:
                place = torch.arange(last - first, device=expected.device)
                expected.movedim((token, shared), (0, 1))[first + place, place] = 1.0
            (found,) = torch.autograd.grad(output, leaf, expected, retain_graph=True)
            return self.split_tensor_into_heads(found)[0].transpose(-2, -1)[:, : last - first]

        return compute_map_rows, 1 if shared is None else shape[shared]

    def apply_map_rows_to_values(self, strip: LinearMapStrip) -> Tensor:
        """Apply rows to the values: [head, row, feature]."""
        seen = strip.weights.shape[-1]
        return strip.weights @ self.split_tensor_into_heads(self.value_tensor)[0, :, :seen]

    def compute_linear_part_of_output(self) -> Tensor:
        """The linear part of the output: [head, token, feature], without what zero values give."""
        with torch.no_grad():
            found = self.call.compute_output_with_new_argument(self.values.key, self.value_tensor)
            nothing = self.call.compute_output_with_new_argument(
                self.values.key, torch.zeros_like(self.value_tensor)
            )
            return self.split_tensor_into_heads(found - nothing)[0]
