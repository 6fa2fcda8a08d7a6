"""Models off the attention interface: their own softmax and sdpa calls, seen as they happen, one layer at a time.

A softmax over the last dimension is an attention map when it goes on to weigh values in a product; a router's or a
pooling's does not. Calls of sdpa are computed here, in strips; maps of a softmax are whole when they are seen.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, ref

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from attncli.capture.attention_calls import UNCHANGED, iter_nested_tensors, read_torch_function_name
from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.capture.softmax_attention.attention_interface import (
    SOFTMAX,
    MapOperands,
    Strip,
    count_rows_within_memory,
    emit_map_rows_while_requested,
    promote_half_to_float32,
)
from attncli.capture.softmax_attention.attention_site_names import is_module_named_attention
from attncli.capture.softmax_attention.post_softmax_mixing import PRODUCTS, MixedMapTracker
from attncli.errors import InputError
from attncli.forward_argument_types import Args, Function, Kwargs, Output

MASKING = {torch.masked_fill, Tensor.masked_fill}

HIDDEN = 5000.0
"""Scores this far below the best of their row are masked: masks add -10,000 at least, and e^-5000 is 0 in float64."""

NOTHING = -1e30
"""Rows whose best score is lower see no key: only masks add such numbers."""

MARK = "_attncli_map"
"""Attribute of tensors that are an attention map, or a view or masked copy of one: its index among pending maps."""


@dataclass
class PendingMap:
    """A softmax output that no product has used yet."""

    module: nn.Module
    """The innermost attention module in which it ran."""
    weights: Tensor
    visible: Tensor | None
    """The keys that its scores leave visible."""
    scores: Tensor | None
    references: list[ReferenceType[Tensor]]
    """Weak references to the tensors that are this map."""
    used: bool = False
    """Whether any function has used it."""


Found = Callable[[nn.Module, Strip], bool]
"""Called with every strip; True at a map's last strip requests the whole map once more."""


class SoftmaxCapture(TorchFunctionMode):
    """Emits the attention maps computed inside attention modules."""

    def __init__(self, model: nn.Module, observe: Found, memory: int) -> None:
        super().__init__()
        self.observer = observe
        self.memory = memory
        self.running: list[nn.Module] = []
        self.keys: list[set[int]] = []
        """For each running module the numbers of keys of its own softmax maps."""
        self.pending: dict[int, PendingMap] = {}
        """Maps that no product has used yet."""
        self.unclaimed: list[nn.Module] = []
        """Modules whose softmax was used but never multiplied by values: their attention was not seen."""
        self.attended: set[nn.Module] = set()
        """Modules whose attention was seen here or on the interface: further softmaxes in them may be unused."""
        self.mixed = MixedMapTracker(model)
        self.silent = False
        """Whether to ignore what runs now."""
        seen = model.attending if isinstance(model, ForeignModule) else frozenset[nn.Module]()
        self.modules = [
            module
            for name, module in model.named_modules()
            if module in seen or is_module_named_attention(name, module)
        ]

    def start_forward_pass(self) -> None:
        """Start a new forward pass."""
        self.mixed.there = False
        self.unclaimed = []
        self.attended = set()

    @contextmanager
    def hook_attention_modules(self) -> Iterator[None]:
        entered = [(module, self.enter_attention_module) for module in self.modules]
        left = [(module, self.leave_attention_module) for module in self.modules]
        with hook_forwards(entered, left, always=True), self:
            yield

    def enter_attention_module(self, module: nn.Module, _: object) -> None:
        self.running.append(module)
        self.keys.append(set())

    def leave_attention_module(self, module: nn.Module, *_: object) -> None:
        self.running.pop()
        if len(self.keys.pop()) > 1:
            raise InputError(
                f"{type(module).__name__} puts its attention together from several softmaxes (low-rank or block-sparse "
                "attention): its maps cannot be captured."
            )
        if not self.running:
            waiting = list(self.pending.values())
            self.pending.clear()
            for found in waiting:
                lost = (
                    found.used
                    or is_map_still_referenced(found)
                    or found.module not in self.attended
                )
                self.unclaimed += [found.module] * lost

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        kwargs = kwargs or {}
        if self.silent or not self.running:
            return func(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return compute_sdpa_in_row_strips(self.emit_map_rows, self.memory, *args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self.run_multi_head_attention(func, args, kwargs)
        if func in SOFTMAX:
            if not args:
                kwargs = dict(kwargs)
                args = (kwargs.pop("input"),)
            return self.run_model_softmax(func, args, kwargs)
        result = func(*args, **kwargs)
        if self.mixed.there:
            self.mixed.follow_map_through_function(func, args, result)
        if self.pending:
            self.follow_maps_through_function(func, args, kwargs, result)
        return result

    def run_model_softmax(self, func: Function, args: Args, kwargs: Kwargs) -> Tensor:
        """The model's softmax; where it is in half precision, taken in float32 first and rounded for the model."""
        exact = [promote_half_to_float32(value) for value in args]
        weights: Tensor = func(
            *exact, **{name: promote_half_to_float32(value) for name, value in kwargs.items()}
        )
        result = (
            weights if exact[0] is args[0] else weights.to(kwargs.get("dtype") or args[0].dtype)
        )
        if is_softmax_over_keys(result, args, kwargs):
            number = max(self.pending, default=0) + 1
            inside = [each for each in self.running if type(each) is not nn.Softmax]
            self.pending[number] = PendingMap(
                (inside or self.running)[-1], weights, find_unmasked_keys(exact[0]), exact[0], []
            )
            self.mark_tensor_as_map(result, number)
        return result

    def mark_tensor_as_map(self, tensor: Tensor, number: int) -> None:
        """Mark the tensor as this map."""
        setattr(tensor, MARK, number)
        self.pending[number].references.append(ref(tensor))

    def follow_maps_through_function(
        self, func: Function, args: Args, kwargs: Kwargs, result: Output
    ) -> None:
        """Follow pending maps: views and copies keep the mark, a product with values claims the map.

        A map that is scaled or mixed before it weighs values is no longer the one that was seen, so it is lost here; one
        of which some weights are made zero is seen so.
        """
        for source in iter_nested_tensors((args, kwargs)):
            number = getattr(source, MARK, None)
            if number not in self.pending:
                continue
            if func in PRODUCTS:
                found = self.pending.pop(number)
                strip = convert_whole_map_to_row_strip(found.weights, found.visible, found.scores)
                self.keys[-1].add(strip.keys)
                self.mixed.mark_possible_attention_map(found.module, found.weights, result)
                self.emit_whole_map(strip)
            elif isinstance(result, Tensor) and read_torch_function_name(func) in UNCHANGED:
                self.mark_tensor_as_map(result, number)
            elif (
                args and source is args[0] and does_function_zero_masked_entries(func, args, result)
            ):
                self.follow_map_through_masking(number, args[1])
                self.mark_tensor_as_map(result, number)
            else:
                found = self.pending[number]
                found.used = True
                if result is source and found.weights.dtype != source.dtype:
                    setattr(source, MARK, None)  # changed in place; `weights` is a copy

    def follow_map_through_masking(self, number: int, hidden: Tensor) -> None:
        """Follow a pending map with weights set to zero; its softmax input no longer gives them, and is dropped."""
        found = self.pending[number]
        found.weights = found.weights.masked_fill(hidden, 0.0)
        found.scores = None

    def emit_map_rows(self, strip: Strip) -> bool:
        self.attended.add(self.running[-1])
        return self.observer(self.running[-1], strip)

    def emit_whole_map(self, strip: Strip) -> None:
        """Emit a map in one piece, as often as the observer requests it."""
        emit_map_rows_while_requested(lambda _: [strip], self.emit_map_rows)

    def run_multi_head_attention(self, func: Function, args: Args, kwargs: Kwargs) -> Output:
        """Run torch's own multi-head module: it merges its masks, and calls sdpa where no weights are requested."""

        def attend_in_row_strips(*inner: Any, **named: Any) -> Tensor:
            return compute_sdpa_in_row_strips(self.emit_map_rows, self.memory, *inner, **named)

        with replace_sdpa(attend_in_row_strips):
            output, _ = func(*args, **{**kwargs, "need_weights": False})
        weights = func(*args, **kwargs)[1] if kwargs.get("need_weights", True) else None
        return output, weights


@contextmanager
def replace_sdpa(function: Callable[..., Tensor]) -> Iterator[None]:
    """Within, replace scaled_dot_product_attention for torch's own code, which calls it past any torch-function mode."""
    own = F.scaled_dot_product_attention
    F.scaled_dot_product_attention = function
    try:
        yield
    finally:
        F.scaled_dot_product_attention = own


def is_map_still_referenced(pending: PendingMap) -> bool:
    """Whether any tensor still refers to it besides the reference here."""
    del pending.weights, pending.visible, pending.scores
    return any(tensor() is not None for tensor in pending.references)


def does_function_zero_masked_entries(func: Function, args: Args, result: Output) -> bool:
    """Whether a function returns its first argument with some entries set to zero."""
    is_applied = len(args) == 3 and isinstance(args[1], Tensor) and isinstance(result, Tensor)
    return is_applied and func in MASKING and bool(args[2] == 0)


def is_softmax_over_keys(result: Tensor, args: Args, kwargs: Kwargs) -> bool:
    """Whether a softmax is over the last axis of something like [head, query, key]."""
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return result.dim() >= 3 and dim in (-1, result.dim() - 1)


def find_unmasked_keys(scores: Tensor) -> Tensor | None:
    """[1, 1, query, key]: the keys that the mask has left to any head; biases push far keys down in some heads only."""
    best = scores.amax(dim=-1, keepdim=True)
    lowest = torch.full_like(best, max(NOTHING, torch.finfo(scores.dtype).min / 2))
    # Scores that are themselves as large as what a mask adds are that far apart without one.
    near = scores > torch.where(best.abs() < HIDDEN / 2, best - HIDDEN, lowest)
    visible = near.flatten(0, -3).any(dim=0)
    return None if bool(visible.all()) else visible[None, None]


def convert_whole_map_to_row_strip(
    weights: Tensor, visible: Tensor | None = None, scores: Tensor | None = None
) -> Strip:
    """A strip of a whole map, as [batch, head, query, key]."""
    queries, keys = weights.shape[-2:]
    is_applied = (
        None
        if scores is None or not every_query_sees_a_key(scores)
        else promote_half_to_float32(reshape_map_to_four_axes(scores))
    )
    return Strip(
        promote_half_to_float32(reshape_map_to_four_axes(weights)),
        0,
        0,
        queries,
        keys,
        visible,
        scores=is_applied,
    )


def reshape_map_to_four_axes(values: Tensor) -> Tensor:
    """Add axes to [head, query, key] to make [batch, head, query, key]; merge further ones."""
    return values[None] if values.dim() == 3 else values.flatten(0, values.dim() - 4)


def every_query_sees_a_key(scores: Tensor) -> bool:
    """Whether every query sees a key: the scores of a row without any are meaningless."""
    return bool((scores.amax(dim=-1) > NOTHING).all())


def compute_sdpa_in_row_strips(
    hand_on: Callable[[Strip], bool],
    memory: int,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch's scaled_dot_product_attention by its definition, a strip of queries at a time; dropout is off."""
    lead, dtype = query.shape[:-2], query.dtype
    queries, keys = query.shape[-2], key.shape[-2]
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (side.repeat_interleave(groups, -3) for side in (key, value))
    query, key, value = (
        promote_half_to_float32(query),
        promote_half_to_float32(key),
        promote_half_to_float32(value),
    )
    mask = None if attn_mask is None else attn_mask.expand(*lead, queries, keys)
    rows = count_rows_within_memory(memory, math.prod(lead) * keys * max(4, query.element_size()))
    outputs: list[Tensor] = []

    def iter_map_rows(number: int) -> Iterator[Strip]:
        for start in range(0, queries, rows):
            logits = query[..., start : start + rows, :] @ key.transpose(-2, -1) * scale
            if is_causal:
                future = torch.arange(keys, device=query.device) > torch.arange(
                    start, start + logits.shape[-2], device=query.device
                ).unsqueeze(1)
                logits = logits.masked_fill(future, -math.inf)
            if mask is not None:
                part = mask[..., start : start + rows, :]
                hidden = part.dtype == torch.bool
                logits = logits.masked_fill(~part, -math.inf) if hidden else logits + part
            # a row that sees nothing is zero
            weights = torch.softmax(logits, dim=-1).nan_to_num(0.0)
            if not number:
                outputs.append(weights @ value)
            strip = convert_whole_map_to_row_strip(weights, find_unmasked_keys(logits), logits)
            rows_of = query[..., start : start + rows, :]
            sides = MapOperands(
                reshape_map_to_four_axes(rows_of),
                reshape_map_to_four_axes(key),
                reshape_map_to_four_axes(value),
            )
            yield strip._replace(first_query=start, queries=queries, sides=sides)

    emit_map_rows_while_requested(iter_map_rows, hand_on)
    return torch.cat(outputs, dim=-2).to(dtype)
