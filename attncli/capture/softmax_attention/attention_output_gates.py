"""Output gates before W_O: a sigmoid by which the heads' outputs are multiplied.

Names are not used: a gate is the result of a sigmoid whose product with the outputs is equal, number for number, to the
input of a linear layer.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers.pytorch_utils import Conv1D

from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.softmax_attention.attention_interface import Strip
from attncli.capture.softmax_attention.attention_output_projections import (
    OutputProjections,
    split_weights_by_head,
)
from attncli.capture.softmax_attention.attention_site_names import AttentionSite
from attncli.capture.softmax_attention.tensor_parallel_heads import find_tensor_parallel_group
from attncli.forward_argument_types import Args, Function, Kwargs, Output

SIGMOIDS = {
    torch.sigmoid,
    torch.sigmoid_,
    Tensor.sigmoid,
    Tensor.sigmoid_,
    F.sigmoid,
    torch.special.expit,
}
KEPT = 4
"""How many sigmoid results to remember, the latest ones: an attention has few."""

FoundGate = Callable[[AttentionSite, Tensor, Tensor, Tensor], None]
"""found(site, gate [batch, query, head, value or 1], context [batch, query, head, value], projection [head, value, feature])"""


class OutputGates(OutputProjections):
    """Collects the outputs of one attention at a time until a linear layer takes them, multiplied by a gate."""

    def __init__(self, observe: FoundGate) -> None:
        super().__init__(lambda *_: None)
        self.found_gate = observe
        self.sigmoids: deque[Tensor] = deque(maxlen=KEPT)

    def find_gated_projection_by_input(self, module: nn.Module, args: Args) -> None:
        first = args[0] if args else None
        if self.site is None or self.context is None or not isinstance(first, Tensor):
            return
        context = self.context
        width = context.shape[2] * context.shape[3]
        if first.shape[-1] != width or first.numel() != context.numel():
            return
        for sigmoid in reversed(self.sigmoids):
            gate = reshape_gate_by_head(sigmoid, context)
            if gate is not None and torch.equal(
                first.reshape(context.shape), context.to(first.dtype) * gate.to(first.dtype)
            ):
                site, self.site, self.context = self.site, None, None
                self.sigmoids.clear()
                return self.found_gate(
                    site, gate, context, split_weights_by_head(module, context.shape[2])
                )


def reshape_gate_by_head(gate: Tensor, context: Tensor) -> Tensor | None:
    """Shape the gate as [batch, query, head, value or 1]; None where it has no entry for each value or head."""
    if gate.numel() == context.numel():
        return gate.detach().reshape(context.shape)
    if gate.numel() == context[..., 0].numel():
        return gate.detach().reshape(context.shape[:-1])[..., None]
    return None


class SigmoidTracker(TorchFunctionMode):
    """Remembers the results of sigmoids."""

    def __init__(self, sigmoids: deque[Tensor]) -> None:
        super().__init__()
        self.sigmoids = sigmoids

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        result = func(*args, **(kwargs or {}))
        if func in SIGMOIDS:
            self.sigmoids.append(result)
        return result


@contextmanager
def observe_output_gates(
    model: nn.Module, observe: FoundGate
) -> Iterator[Callable[[AttentionSite, Strip], None]]:
    """Within, pass the strips of a streamed forward to the yielded function; `observe` is called with each gate.

    No gates are looked for where heads are divided over processes.
    """
    if find_tensor_parallel_group(model) is not None:
        yield lambda site, strip: None
        return
    watch = OutputGates(observe)
    linear = (module for module in model.modules() if isinstance(module, (nn.Linear, Conv1D)))
    with (
        hook_forwards((module, watch.find_gated_projection_by_input) for module in linear),
        SigmoidTracker(watch.sigmoids),
    ):
        yield watch.collect_head_outputs_of_map_rows
