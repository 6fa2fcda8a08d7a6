"""Which of the functions that torch runs are attention.

A call of `scaled_dot_product_attention` or of torch's multi-head attention is. Elsewhere attention is a softmax of
scores, and scores descend from the product of two activations: that tells them from a router's softmax, whose logits
are the product of an activation and a weight. No module names are needed, and it does not matter which attention
implementation the model is set to.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

FUSED = frozenset(
    {
        "scaled_dot_product_attention",
        "multi_head_attention_forward",
        "_native_multi_head_attention",
        "flex_attention",
    }
)
"""Functions that are attention as a whole."""

PRODUCTS = frozenset(
    {
        "__matmul__", "__rmatmul__", "_grouped_mm", "baddbmm", "bmm", "einsum", "grouped_mm", "inner", "matmul", "mm",
        "tensordot",
    }
)  # fmt: skip
"""Matrix products of two arguments, either of which may be a weight."""

LINEAR = frozenset({"linear", "addmm", "conv1d", "conv2d", "conv3d", "embedding"})
"""Their results are activations even where the input is a weight: learned queries are projected like any other."""

UNCHANGED = frozenset(
    {
        "alias", "bfloat16", "chunk", "clone", "contiguous", "detach", "double", "dropout", "expand", "expand_as", "flatten", "float", "half", "movedim",
        "permute", "reshape", "reshape_as", "squeeze", "swapaxes", "t", "to", "transpose", "type",
        "type_as", "unflatten", "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""Functions that leave the numbers of a tensor what they were, up to their place and type."""


def name_of(function: Callable[..., Any]) -> str:
    """`add` for torch.add, Tensor.add and aten.add.Tensor alike."""
    name: str = getattr(function, "__name__", "")
    return name.partition(".")[0]


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """All tensors among arguments or results, in order; lists, tuples and dictionaries are looked into."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for value in values:
            yield from tensors_in(value)
    elif isinstance(values, dict):
        yield from tensors_in(list(values.values()))


def is_attention(name: str, scored: bool) -> bool:
    """Whether a function is attention; `scored`: an argument descends from a product of two activations."""
    return name in FUSED or (scored and name in ("softmax", "_softmax"))


def has_scores(name: str, activations: int, scored: bool) -> bool:
    """Whether a function's result descends from a product of two activations; attention and weights end that."""
    if name in PRODUCTS:
        return activations >= 2
    return scored and not is_attention(name, scored) and name not in LINEAR


class Trace(NamedTuple):
    """What is known of a tensor while a model is watched; it lives on the tensor and dies with it."""

    watch: object
    scores: bool = False
    """It descends from a product of two activations, and neither attention nor a product with weights since."""
    left: int | None = None
    """Number of the call that it left unchanged, as its result."""
    lists: frozenset[str] = frozenset()
    """Lists of modules whose elements have been given what it descends from."""


class AttentionWatch(TorchFunctionMode):
    """Follows the activations of one forward and reports each attention call as it happens."""

    def __init__(self, on_attention: Callable[[], None]) -> None:
        super().__init__()
        self.on_attention = on_attention

    def mark(
        self, values: Any, left: int | None = None, lists: frozenset[str] = frozenset()
    ) -> None:
        """From here on these tensors count as activations."""
        for tensor in tensors_in(values):
            tensor._attn_trace = Trace(self, left=left, lists=lists)  # type: ignore[attr-defined]

    def trace(self, tensor: torch.Tensor) -> Trace | None:
        """What is known of a tensor; None for weights and constants, and for marks of an earlier watch."""
        trace: Trace | None = getattr(tensor, "_attn_trace", None)
        return trace if trace is not None and trace.watch is self else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor | list | tuple):
            self.follow(name_of(func), (args, kwargs), result)
        return result

    def follow(self, name: str, inputs: Any, result: Any) -> None:
        """Pass on what is known of the inputs to the result."""
        known = [trace for tensor in tensors_in(inputs) if (trace := self.trace(tensor))]
        if not known and name not in LINEAR:
            return
        scored = any(trace.scores for trace in known)
        if is_attention(name, scored):
            self.on_attention()
        passed = Trace(
            self,
            has_scores(name, len(known), scored),
            known[0].left if name in UNCHANGED and known else None,
            frozenset[str]().union(*(trace.lists for trace in known)),
        )
        given = {id(tensor) for tensor in tensors_in(inputs)}
        for tensor in tensors_in(result):
            if id(tensor) not in given or name.endswith("_"):
                tensor._attn_trace = passed  # type: ignore[attr-defined]
