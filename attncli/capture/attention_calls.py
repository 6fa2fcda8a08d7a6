"""Which torch functions are attention.

A call of `scaled_dot_product_attention` or of torch's multi-head attention is. Elsewhere attention is a softmax of
scores, and scores descend from the product of two activations: that separates them from a router's softmax, whose logits
are the product of an activation and a weight. No module names are needed, and it does not matter which attention
implementation the model is set to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from attncli.forward_argument_types import Args, Function, Kwargs, Output

ASKING = frozenset(
    [
        *(getattr(torch.Tensor, name).__get__ for name in ("device", "dtype", "ndim", "shape")),
        *(
            getattr(torch.Tensor, name)
            for name in ("__len__", "dim", "is_floating_point", "numel", "size")
        ),
    ]
)
"""Functions that read a tensor's sizes and kinds, and return no tensor."""

unseen = torch._C.DisableTorchFunction
"""Within, tensor queries skip all torch-function modes: each mode would cost microseconds and learn nothing."""

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
"""Functions whose results are activations even where the input is a weight: learned queries are projected like any other."""

UNCHANGED = frozenset(
    {
        "alias", "bfloat16", "chunk", "clone", "contiguous", "detach", "double", "dropout", "expand", "expand_as", "flatten", "float", "half", "movedim",
        "permute", "reshape", "reshape_as", "squeeze", "swapaxes", "t", "to", "transpose", "type",
        "type_as", "unflatten", "unsqueeze", "view", "view_as",
    }
)  # fmt: skip
"""Functions that leave a tensor's numbers unchanged, up to position and dtype."""


def read_torch_function_name(function: Function) -> str:
    """`add` for torch.add, Tensor.add and aten.add.Tensor alike."""
    name: str = getattr(function, "__name__", "")
    return name.partition(".")[0]


def iter_nested_tensors(values: Output) -> Iterator[torch.Tensor]:
    """Iterate over all tensors in arguments or results, in order, inside lists, tuples and mappings of any kind too."""
    waiting = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            waiting += value[::-1]
        elif type(value) not in LEAVES and isinstance(value, Mapping):
            waiting += list(value.values())[::-1]


LEAVES = frozenset({bool, float, int, str, type(None), torch.dtype, torch.device})
"""Types of most arguments that are no tensors; whether anything is a mapping takes long to find out."""


def is_attention_function(name: str, scored: bool) -> bool:
    """Whether a function is attention; `scored`: an argument descends from a product of two activations."""
    return name in FUSED or (scored and name in ("softmax", "_softmax"))


def returns_attention_scores(name: str, activations: int, scored: bool) -> bool:
    """Whether a function's result descends from a product of two activations; attention and products with weights end that."""
    if name in PRODUCTS:
        return activations >= 2
    return scored and not is_attention_function(name, scored) and name not in LINEAR


INPUT = -1
"""The source number of the model's own input."""


def read_tensor_version(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place, through any alias; inference tensors do not count it."""
    with unseen():
        return 0 if tensor.is_inference() else tensor._version


class TensorTrace(NamedTuple):
    """What is known of a tensor during capture; stored on the tensor itself."""

    watch: object
    scores: bool = False
    """Whether it descends from a product of two activations, with no attention or product with weights since."""
    returned_by: int | None = None
    """Number of the call that returned it unchanged from its input."""
    lists: frozenset[str] = frozenset()
    """Lists of modules whose elements received what it descends from."""
    sources: frozenset[int] = frozenset()
    """Numbers of the calls whose results it descends from directly, but for masks (booleans) of the model's input."""
    gave: tuple[int, int] | None = None
    """Number of the call that returned it as an extra result, unchanged since, and its position among all results."""
    version: int = 0
    """The tensor's version when this was recorded."""


def merge_tensor_traces(traces: list[TensorTrace]) -> TensorTrace:
    """Merge the traces of several tensors for what descends from them."""
    return TensorTrace(
        traces[0].watch,
        any(trace.scores for trace in traces),
        None,
        frozenset[str]().union(*(trace.lists for trace in traces)),
        frozenset[int]().union(*(trace.sources for trace in traces)),
    )


class AttentionTracer(TorchFunctionMode):
    """Follows the activations of one forward and reports each attention call as it happens."""

    def __init__(self, on_attention: Callable[[], None]) -> None:
        super().__init__()
        self.on_attention = on_attention

    def mark_tensors_as_activations(
        self,
        values: Output,
        left: int | None = None,
        lists: frozenset[str] = frozenset(),
        sources: frozenset[int] = frozenset({INPUT}),
    ) -> None:
        """Mark tensors as activations."""
        for tensor in iter_nested_tensors(values):
            self.attach_tensor_trace(
                tensor, TensorTrace(self, returned_by=left, lists=lists, sources=sources)
            )

    def attach_tensor_trace(self, tensor: torch.Tensor, trace: TensorTrace) -> None:
        """Attach a trace to the tensor as it is now."""
        masks = {INPUT} if tensor.dtype == torch.bool else set()
        known = trace._replace(sources=trace.sources - masks, version=read_tensor_version(tensor))
        tensor._attn_trace = known  # type: ignore[attr-defined]

    def find_tensor_trace(self, tensor: torch.Tensor) -> TensorTrace | None:
        """The trace of a tensor; None for weights and constants, and for traces of an earlier capture.

        A tensor that was changed in place through an alias also descends from what was written there, which the trace of its
        base knows.
        """
        trace: TensorTrace | None = getattr(tensor, "_attn_trace", None)
        if trace is None or trace.watch is not self:
            return None
        if trace.version == read_tensor_version(tensor):
            return trace
        written = None if tensor._base is None else self.find_tensor_trace(tensor._base)
        return merge_tensor_traces([trace] if written is None else [trace, written])

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        if func in ASKING:
            return func(*args, **(kwargs or {}))
        with unseen():
            inputs = [
                (tensor, read_tensor_version(tensor))
                for tensor in iter_nested_tensors((args, kwargs))
            ]
            known = [trace for tensor, _ in inputs if (trace := self.find_tensor_trace(tensor))]
        result = func(*args, **(kwargs or {}))
        name = read_torch_function_name(func)
        if known or name in LINEAR:
            with unseen():
                self.trace_torch_function(name, known, inputs, result)
        return result

    def trace_torch_function(
        self,
        name: str,
        known: list[TensorTrace],
        inputs: list[tuple[torch.Tensor, int]],
        result: Output,
    ) -> None:
        """Pass traces of the inputs on to the result, and to tensors that were written to."""
        passed = merge_tensor_traces(known) if known else TensorTrace(self)
        scored = passed.scores
        if is_attention_function(name, scored):
            self.on_attention()
        same = known[0] if name in UNCHANGED and known else passed
        scores = returns_attention_scores(name, len(known), scored)
        passed = passed._replace(scores=scores, returned_by=same.returned_by, gave=same.gave)
        known_ids = {id(tensor) for tensor, _ in inputs}
        for tensor in iter_nested_tensors(result):
            if id(tensor) not in known_ids:
                self.attach_tensor_trace(tensor, passed)
        for tensor, version in inputs:
            if read_tensor_version(tensor) != version:
                self.record_in_place_write(tensor, passed)

    def record_in_place_write(self, tensor: torch.Tensor, passed: TensorTrace) -> None:
        """Record a write: the tensor and its base now descend from what was written."""
        passed = passed._replace(returned_by=None, gave=None)
        self.attach_tensor_trace(tensor, passed)
        base = tensor._base
        if base is not None:
            before = self.find_tensor_trace(base)
            self.attach_tensor_trace(
                base, merge_tensor_traces([before, passed]) if before else passed
            )
