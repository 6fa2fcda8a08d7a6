"""Models on transformers' attention interface: call the model's own eager function on one strip of queries at a time.

Grouped queries, soft caps, learned sinks, position biases and float32 softmaxes stay the model's own code; only the
rows are cut. Key columns that a whole strip cannot see are left out, so causal attention costs half and a window
costs no more than its width.
"""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.capture.attention_calls import read_tensor_version
from attncli.capture.softmax_attention.rowwise_masks import (
    RowwiseMask,
    find_keys_shown_by_mask,
    find_span_of_visible_keys,
)
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Kwargs, Output

if TYPE_CHECKING:
    from attncli.capture.softmax_attention.map_statistics import MapStatistics

EAGER = "eager_attention_forward"
"""How the eager functions of transformers' models end."""

Attention = Callable[..., tuple[Tensor, Tensor]]


class MapOperands(NamedTuple):
    """The query and key that a map is made of, as attention receives them: after rotary positions and norms, before scaling."""

    query: Tensor
    """[batch, head, query, feature]: of the strip's rows."""
    key: Tensor
    """[batch, head or group, key, feature]: all keys."""
    value: Tensor


class Strip(NamedTuple):
    """Some rows of one layer's attention maps, and their position in the map."""

    weights: Tensor
    """[batch, head, query, key]: float32, or float64 in a float64 model; keys left out have weight 0."""
    first_query: int
    first_key: int
    queries: int
    """Rows of the whole map."""
    keys: int
    """Columns of the whole map."""
    visible: Tensor | None = None
    """[batch or 1, 1, query, key] bool: the keys of the strip that the mask leaves; None where it leaves all."""
    outputs: Tensor | None = None
    """[batch, query, head, value]: the values weighted by these rows; None where they were not seen."""
    scores: Tensor | None = None
    """[batch, head, query, key]: the softmax's input that gives these weights; None where it was not seen."""
    round: int = 0
    """How often the whole map was emitted before; more than 0 only where an observer requested it again."""
    total: float = 1.0
    """The sum of a row, up to a learned sink; not 1 where one map is subtracted from another."""
    sides: MapOperands | None = None
    """The map's query and key, not copied; None where these were not seen."""
    signed_map: Tensor | None = None
    """[batch, head, query, key]: the map of a linear layer, of both signs; `weights` are |A_ij| / Σ_j |A_ij| then."""
    statistics: "MapStatistics | None" = None
    """What the whole map comes to, where that was asked for instead of its weights, which are nan then; else what the
    strip's rows come to, where this is known."""

    @property
    def has_weights(self) -> bool:
        return self.statistics is None or self.statistics.request.weights

    @property
    def row_sums(self) -> Tensor:
        """[batch, head, query]"""
        found = self.statistics
        return self.weights.sum(dim=-1) if found is None else found.find_row_statistic("row_sums")

    @property
    def contains_first_map_row(self) -> bool:
        """Whether this strip begins a map in its first round."""
        return self.first_query == 0 and self.round == 0

    @property
    def contains_last_map_row(self) -> bool:
        """Whether this strip ends the map in this round."""
        return self.first_query + self.weights.shape[2] == self.queries


def emit_map_rows_while_requested(
    strips: Callable[[int], Iterable[Strip]], observe: Callable[[Strip], bool]
) -> None:
    """Emit all strips of one map in order, and all of them again as long as the observer requests it at the last.

    All code that emits maps does it here, so that no return value of an observer is lost.
    """
    number, again = 0, True
    while again:
        for strip in strips(number):
            again = observe(strip._replace(round=number))
        number += 1


def find_unpatched_eager_attention(module: nn.Module) -> Attention:
    """The model's own eager function, which the module's forward names; other patches are removed by inspect.unwrap."""
    forward = inspect.unwrap(type(module).forward)
    named = [name for name in forward.__code__.co_names if name.endswith(EAGER)]
    found = forward.__globals__.get(named[0] if named else EAGER)
    if found is None:
        found = getattr(sys.modules[type(module).__module__], EAGER, None)
    if found is None:
        raise InputError(f"{type(module).__name__} does not say which eager attention is its own.")
    result: Attention = inspect.unwrap(found)
    return result


def attend_in_row_strips(
    eager: Attention, call: "EagerCall", rows: int, observe: Callable[[Strip], bool]
) -> Tensor:
    """Compute the output [batch, query, head, value] of one attention, and emit its map in strips."""
    whole: Tensor | None = None

    def iter_map_rows(number: int) -> Iterator[Strip]:
        nonlocal whole
        one_call = call.copy_with_few_value_features() if number else call
        for start in range(0, call.query_count, rows):
            output, strip = compute_output_and_map_rows(eager, one_call, start, rows)
            # one output tensor for all strips: small ones between strips would keep the heap from reusing memory
            if whole is None:
                whole = output.new_empty((len(output), call.query_count, *output.shape[2:]))
            if not number:
                whole[:, start : start + output.shape[1]] = output
            yield strip if number else strip._replace(outputs=output)

    emit_map_rows_while_requested(iter_map_rows, observe)
    assert whole is not None
    return whole


def compute_output_and_map_rows(
    eager: Attention, call: "EagerCall", start: int, rows: int
) -> tuple[Tensor, Strip]:
    """Compute the output [batch, query, head, value] of some rows, and their strip of the map."""
    part = call.slice_arguments_for_rows(start, min(start + rows, call.query_count))
    with LastSoftmax() as softmax:
        output, weights = eager(call.module, *part.tensors, **part.keywords)
    place = (start, part.first_key, call.query_count, call.key_count)
    sides = MapOperands(part.tensors[0], call.key, call.value)
    strip = Strip(
        weights, *place, part.visible, None, softmax.find_scores_of_weights(weights), sides=sides
    )
    return output, strip


SOFTMAX = {torch.softmax, Tensor.softmax, F.softmax}
SUBTRACTIONS = {torch.sub, Tensor.sub, Tensor.__sub__}


class LastSoftmax(TorchFunctionMode):
    """Remembers input and output of the last softmax that ran under it: an entropy from both needs no logarithm of every weight."""

    def __init__(self) -> None:
        super().__init__()
        self.scores: Tensor | None = None
        self.weights: Tensor | None = None
        self.version = 0
        """The version of the weights when they were made; a change in place would raise it."""
        self.shifted: tuple[Tensor, Tensor] | None = None
        """The last difference of a tensor and one number per row, and that tensor."""

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        result = func(*args, **(kwargs or {}))
        if func in SOFTMAX:
            scores = self.find_scores_before_max_subtraction(args[0])
            self.scores, self.weights, self.version = scores, result, read_tensor_version(result)
        elif func in SUBTRACTIONS and is_second_tensor_one_number_per_row(args):
            self.shifted = result, args[0]
        return result

    def find_scores_before_max_subtraction(self, value: Tensor) -> Tensor:
        """The scores before a model subtracted their rows' maxima, which changes no weight."""
        shifted = self.shifted
        return shifted[1] if shifted is not None and shifted[0] is value else value

    def find_scores_of_weights(self, weights: Tensor) -> Tensor | None:
        """The input of the softmax that made these very numbers; None if they were made otherwise.

        With a learned sink one column more takes part, and the weights are the first columns of the softmax's output.
        """
        scores, made = self.scores, self.weights
        if scores is None or made is None or scores.dtype != weights.dtype:
            return None
        keys = weights.shape[-1]
        same = made.data_ptr() == weights.data_ptr() and made.stride() == weights.stride()
        same = same and made.shape[:-1] == weights.shape[:-1] and made.shape[-1] - keys in (0, 1)
        same = same and made.shape == scores.shape and read_tensor_version(weights) == self.version
        return scores[..., :keys] if same else None


def is_second_tensor_one_number_per_row(args: Args) -> bool:
    """Whether the arguments are a tensor and one number for each of its rows."""
    tensors = len(args) == 2 and all(isinstance(each, Tensor) for each in args)
    return tensors and args[1].dim() == args[0].dim() and args[1].shape[-1] == 1


def emit_map_rows_without_output(
    eager: Attention, call: "EagerCall", rows: int, observe: Callable[[Strip], bool]
) -> None:
    """Emit the map of one attention in strips, without its output."""
    narrow = call.copy_with_few_value_features()

    def iter_map_rows(number: int) -> Iterator[Strip]:
        for start in range(0, call.query_count, rows):
            yield compute_output_and_map_rows(eager, narrow, start, rows)[1]

    emit_map_rows_while_requested(iter_map_rows, observe)


NARROW = 16
"""Features of the values in repeated rounds; products with fewer are not faster."""


class StripArguments(NamedTuple):
    tensors: tuple[Tensor, Tensor, Tensor, Tensor | None]
    keywords: Kwargs
    first_key: int
    visible: Tensor | None


class EagerCall(NamedTuple):
    """The arguments of one call of the attention interface."""

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    keywords: Kwargs

    def copy_with_few_value_features(self) -> "EagerCall":
        """The same call with few features of the values, so that their product costs less in repeated rounds."""
        return self._replace(value=self.value[..., :NARROW].contiguous())

    @property
    def query_count(self) -> int:
        return self.query.shape[2]

    @property
    def key_count(self) -> int:
        return self.key.shape[2]

    def slice_arguments_for_rows(self, start: int, stop: int) -> StripArguments:
        """The arguments for queries start … stop and the keys that they see."""
        mask = self.slice_mask_rows(start, stop)
        keywords = {
            name: self.slice_query_rows(value, start, stop) for name, value in self.keywords.items()
        }
        follows_keys = any(cut is not self.keywords[name] for name, cut in keywords.items())
        visible = find_keys_shown_by_mask(mask, self.key_count)
        if visible is not None:  # a mask may have one row for all queries
            visible = visible.expand(-1, -1, min(stop, self.query_count) - start, -1)
        first, last = (
            (0, self.key_count)
            if follows_keys
            else find_span_of_visible_keys(visible, self.key_count)
        )
        key, value = self.key[:, :, first:last], self.value[:, :, first:last]
        mask = None if mask is None else mask[..., first:last]
        visible = None if visible is None else visible[..., first:last]
        return StripArguments(
            (self.query[:, :, start:stop], key, value, mask), keywords, first, visible
        )

    @property
    def map_bytes_per_row(self) -> int:
        """Bytes of one row of all heads' maps."""
        heads = self.query.shape[0] * self.query.shape[1]
        return heads * self.key_count * max(4, self.query.element_size())

    def slice_mask_rows(self, start: int, stop: int) -> Tensor | None:
        if self.mask is None:
            return None
        if isinstance(self.mask, RowwiseMask):
            return self.mask.compute_mask_rows(start, stop)
        rows: Tensor = self.slice_query_rows(self.mask, start, stop)
        return rows

    def slice_query_rows(self, value: Output, start: int, stop: int) -> Output:
        """Cut the rows of anything that has one row per query, such as a position bias [1, head, query, key]."""
        rowwise = (
            isinstance(value, Tensor) and value.dim() == 4 and value.shape[2] == self.query_count
        )
        return value[:, :, start:stop] if rowwise and self.query_count > 1 else value


def promote_half_to_float32(value: Output) -> Output:
    """Half-precision tensors as float32: maps of bfloat16 have rows that are off by 2e-3."""
    half = isinstance(value, Tensor) and value.dtype in (torch.bfloat16, torch.float16)
    return value.float() if half else value


ALIVE = 4
"""Arrays of a strip's size at once: logits, masked logits, softmax, and an observer's result."""


ENOUGH = 64
"""With fewer rows, the products of a strip cost more per number."""

NEAR = 2**24
"""Bytes of a strip that stay in the processor's cache during all steps."""


def count_rows_within_memory(memory: int, row: int) -> int:
    """The number of rows to compute at a time, each with so many bytes over all heads, within the memory."""
    near = max(ENOUGH, NEAR // (ALIVE * row))
    return max(1, min(near, memory // (ALIVE * row)))
