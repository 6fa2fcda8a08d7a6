"""Attention masks without a token × token array: rows are computed when a strip needs them.

Models pass masks on, read their shape, and test that they are tensors; so this is a tensor subclass without storage.
Where a model computes with its mask after all, the whole mask is materialised once, and the computation goes on.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_map
from transformers.masking_utils import eager_mask

from attncli.capture.attention_calls import read_tensor_version
from attncli.forward_argument_types import Args, Function, Kwargs, Output

Derived = TypeVar("Derived")

Rows = Callable[[int, int], torch.Tensor]
"""Rows start … stop of a mask: [batch, 1, stop - start, key], 0 where visible, the dtype's minimum elsewhere."""

make_whole_mask: Callable[..., torch.Tensor | None] = eager_mask

WHOLE_BELOW = 2**20
"""Masks with fewer elements are materialised at once: a few megabytes do not justify a wrapper."""


MASKS = 4
"""Masks that are kept with what they show: models have few kinds of them, though some make a new one for each layer."""


class RowwiseMask(torch.Tensor):
    """An additive mask [batch, 1, query, key] that is evaluated a strip at a time."""

    mask: torch.Tensor | None
    make: Rows

    @staticmethod
    def __new__(
        cls, make: Rows, shape: Sequence[int], dtype: torch.dtype, device: torch.device
    ) -> "RowwiseMask":
        mask: RowwiseMask = torch.Tensor._make_wrapper_subclass(
            cls, shape, dtype=dtype, device=device
        )
        mask.make = make
        mask.mask = None
        return mask

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def compute_mask_rows(self, start: int, stop: int) -> torch.Tensor:
        return self.make(start, stop) if self.mask is None else self.mask[:, :, start:stop]

    def materialise_whole_mask(self) -> torch.Tensor:
        """Materialise the mask; from now on this tensor is read, as the model may write to it."""
        if self.mask is None:
            self.mask = self.make(0, self.shape[2])
        return self.mask

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        if func is torch.ops.aten.slice.Tensor and does_slice_keep_whole_mask(*args):
            return args[0]
        if func is torch.ops.aten.detach.default:
            return args[0]
        args, kwargs = tree_map(materialise_mask, (tuple(args), dict(kwargs or {})))
        return func(*args, **kwargs)


@dataclass
class PerMask:
    """What is computed of a mask once for all layers that are given it, unless the mask is written to in between."""

    known: dict[Hashable, tuple[Tensor | None, int, Any]] = field(default_factory=dict)

    def get_cached_or_compute_for_mask(
        self, mask: Tensor | None, compute: Callable[[], Derived], *arguments: Hashable
    ) -> Derived:
        """`arguments`: whatever else the result depends on."""
        place, version = (id(mask), *arguments), read_mask_version(mask)
        known = self.known.get(place)
        if known is None or known[0] is not mask or known[1] != version:
            known = mask, version, compute()
            if len(self.known) == MASKS:
                self.known.clear()
            self.known[place] = known
        found: Derived = known[2]
        return found


def read_mask_version(mask: Tensor | None) -> int:
    """A number that changes when the mask is written to."""
    if mask is None:
        return 0
    if isinstance(mask, RowwiseMask):
        return -1 if mask.mask is None else read_tensor_version(mask.mask)
    return read_tensor_version(mask)


def materialise_mask(value: object) -> Output:
    """Materialise a RowwiseMask; return everything else unchanged."""
    return value.materialise_whole_mask() if isinstance(value, RowwiseMask) else value


def does_slice_keep_whole_mask(
    mask: torch.Tensor, dim: int = 0, start: int | None = 0, end: int | None = None, step: int = 1
) -> bool:
    """Whether mask[start:end:step] is the mask, as in `mask[..., : key.shape[-2]]`."""
    return (start or 0) == 0 and step == 1 and (end is None or end >= mask.shape[dim])


def make_rowwise_mask(
    batch_size: int, q_length: int, kv_length: int, q_offset: int | Tensor = 0, **kwargs: Any
) -> torch.Tensor | None:
    """Make the mask that transformers' eager attention would get, row by row where it is large."""
    if q_length * kv_length < WHOLE_BELOW or not isinstance(q_offset, int):
        return make_whole_mask(batch_size, q_length, kv_length, q_offset, **kwargs)
    if kwargs.pop("allow_is_bidirectional_skip", False) and does_mask_hide_no_key(
        kv_length, kwargs
    ):
        return None

    def compute_eager_mask_rows(start: int, stop: int) -> torch.Tensor:
        made = make_whole_mask(batch_size, stop - start, kv_length, q_offset + start, **kwargs)
        assert made is not None  # only bidirectional masks may be None, if so requested
        return made

    first = compute_eager_mask_rows(0, 1)
    shape = (batch_size, first.shape[1], q_length, kv_length)
    return RowwiseMask(compute_eager_mask_rows, shape, first.dtype, first.device)


def does_mask_hide_no_key(kv_length: int, kwargs: Kwargs) -> bool:
    """Whether a bidirectional mask hides no key: no padding, and no window shorter than the keys."""
    padding, window = kwargs.get("attention_mask"), kwargs.get("local_size")
    return (padding is None or bool(padding.all())) and (window is None or kv_length < window)


def find_keys_shown_by_mask(mask: Tensor | None, keys: int) -> Tensor | None:
    """[batch or 1, 1, query, key]: keys that the mask shows to any head; None where it shows all.

    A row that sees nothing is uniform over all keys in eager attention: it counts as seeing them all.
    """
    if mask is None or mask.shape[-1] != keys or not mask.dtype.is_floating_point:
        return None
    visible = (mask > torch.finfo(mask.dtype).min / 2).any(dim=1, keepdim=True)
    seeing = visible.any(dim=-1, keepdim=True)
    return visible if bool(seeing.all()) else visible | ~seeing


def find_span_of_visible_keys(visible: Tensor | None, keys: int) -> tuple[int, int]:
    """First key and the one after the last that some query of the strip sees."""
    if visible is None:
        return 0, keys
    seen = visible.flatten(0, 2).any(dim=0).nonzero()
    return int(seen[0]), int(seen[-1]) + 1
