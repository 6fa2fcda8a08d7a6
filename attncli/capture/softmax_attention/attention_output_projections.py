"""Find the output projection W_O of the heads: the first linear layer whose input equals their outputs.

Names are not used. Where outputs are gated, mixed or normed before, no layer is reported.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from transformers.pytorch_utils import Conv1D

from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.softmax_attention.attention_interface import Strip
from attncli.capture.softmax_attention.attention_site_names import AttentionSite
from attncli.capture.softmax_attention.tensor_parallel_heads import find_tensor_parallel_group
from attncli.forward_argument_types import Args

Found = Callable[[AttentionSite, Tensor, Tensor], None]
"""found(site, context [batch, query, head, value], projection [head, value, feature])"""


@dataclass
class OutputProjections:
    """Collects the outputs of one attention at a time until a linear layer takes them."""

    observer: Found
    group: ProcessGroup | None = None
    """The processes that share heads and layers."""
    site: AttentionSite | None = None
    context: Tensor | None = None

    def collect_head_outputs_of_map_rows(self, site: AttentionSite, strip: Strip) -> None:
        """Add the outputs of one strip."""
        outputs = strip.outputs
        if strip.first_query == 0:
            self.site, self.context = None, None
            if outputs is not None:
                shape = (len(outputs), strip.queries, *outputs.shape[2:])
                self.site, self.context = site, outputs.new_empty(shape)
        if outputs is not None and self.context is not None:
            start = strip.first_query
            self.context[:, start : start + outputs.shape[1]] = outputs

    def find_output_projection_by_input(self, module: nn.Module, args: Args) -> None:
        """Compare a linear layer's input with the outputs, before it runs."""
        if self.site is None or self.context is None or not args:
            return
        outputs, context = args[0], self.context
        if not isinstance(outputs, Tensor):
            return
        own = (
            context
            if self.group is None
            else select_heads_of_this_process(outputs, context, self.group)
        )
        if outputs.shape[-1] != own.shape[2] * own.shape[3] or outputs.numel() != own.numel():
            return
        if torch.equal(outputs.reshape(own.shape), own.to(outputs.dtype)):
            site, self.site, self.context = self.site, None, None
            self.observer(site, context, split_weights_by_head(module, context.shape[2]))


def select_heads_of_this_process(
    value: Tensor, context: Tensor, group: ProcessGroup | None
) -> Tensor:
    """The heads that this process computes, if its layer takes these alone."""
    width, size = context.shape[2] * context.shape[3], dist.get_world_size(group)
    if value.shape[-1] * size != width:
        return context
    return context.chunk(size, dim=2)[dist.get_rank(group)]


def split_weights_by_head(module: nn.Module, heads: int) -> Tensor:
    """Split the layer's weights by head: [head, value, feature], from input to output."""
    weight = module.get_parameter("weight").detach()
    if weight.is_meta:
        weight = fetch_offloaded_weight(module)
    if hasattr(weight, "full_tensor"):  # split over processes
        weight = weight.full_tensor()
    turned = weight if isinstance(module, Conv1D) else weight.T
    return turned.unflatten(0, (heads, -1))  # type: ignore[no-untyped-call, no-any-return]


def fetch_offloaded_weight(module: nn.Module) -> Tensor:
    """Fetch weights that accelerate offloaded, as the layer's own forward does before it runs."""
    from accelerate.utils import align_module_device

    with align_module_device(module):
        return module.get_parameter("weight").detach().clone()


@contextmanager
def observe_output_projections(
    model: nn.Module, observe: Found
) -> Iterator[Callable[[AttentionSite, Strip], None]]:
    """Within, pass the strips of a streamed forward to the yielded function; `observe` is called with each projection."""
    watch = OutputProjections(observe, find_tensor_parallel_group(model))
    linear = (module for module in model.modules() if isinstance(module, (nn.Linear, Conv1D)))
    with hook_forwards((module, watch.find_output_projection_by_input) for module in linear):
        yield watch.collect_head_outputs_of_map_rows
