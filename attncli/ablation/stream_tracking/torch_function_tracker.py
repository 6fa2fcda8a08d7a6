"""The torch-function mode that tracks one run of a block."""

from collections.abc import Sequence

import torch
from torch.overrides import TorchFunctionMode

from attncli.ablation.norm_layers import FUNCTIONS
from attncli.ablation.stream_tracking.ablation_policies import KeepPolicy
from attncli.ablation.stream_tracking.block_run_record import BlockRun
from attncli.ablation.stream_tracking.operands_of_sums_and_products import ADD, SCALE
from attncli.ablation.stream_tracking.residual_additions import evaluate_residual_addition
from attncli.ablation.stream_tracking.source_code_locations import find_call_site_in_model_code
from attncli.ablation.stream_tracking.tag_propagation import run_function_with_tags
from attncli.ablation.stream_tracking.tensor_tags import (
    Key,
    Tag,
    UntouchedResult,
    attach_stream_tag,
    derive_tag_off_residual_stream,
)
from attncli.capture.attention_calls import ASKING, iter_nested_tensors, read_torch_function_name
from attncli.forward_argument_types import Args, Function, Kwargs, Output

SILENT = ASKING | {torch.Tensor.__bool__, torch.Tensor.item}
"""Functions that read something from a tensor that is no tensor."""


class Tracker(TorchFunctionMode):
    """Tracks the tensors of one run of a block, and drops what the policy does not keep."""

    def __init__(self, run: BlockRun, parts: KeepPolicy) -> None:
        super().__init__()
        self.run = run
        self.parts = parts
        self.inside_norm = False
        """Whether a norm's own code runs, which is not tracked."""

    def __torch_function__(
        self, func: Function, types: Sequence[type], args: Args = (), kwargs: Kwargs | None = None
    ) -> Output:
        kwargs = kwargs or {}
        if self.inside_norm or func in SILENT:
            return func(*args, **kwargs)
        name = read_torch_function_name(func)
        if name in ADD and "out" not in kwargs:
            return evaluate_residual_addition(self.run, self.parts, func, args, kwargs)
        if name in SCALE:
            self.record_gated_residual_streams(args, kwargs)
        if (
            name in FUNCTIONS
            and (activation := self.find_only_activation_argument(args, kwargs)) is not None
        ):
            return self.evaluate_norm_layer(
                find_call_site_in_model_code(), activation, func, args, kwargs
            )
        return run_function_with_tags(self.run, func, args, kwargs)

    def record_gated_residual_streams(self, args: Args, kwargs: Kwargs) -> None:
        """Record where the stream is multiplied by an activation, after which it is no longer the stream."""
        tags = [
            self.run.find_tag_of_tensor(tensor) for tensor in iter_nested_tensors((args, kwargs))
        ]
        if len(tags) == 2 and all(tags) and any(tag and tag.point for tag in tags):
            self.run.gated.append(find_call_site_in_model_code())

    def find_only_activation_argument(self, args: Args, kwargs: Kwargs) -> torch.Tensor | None:
        """The one activation among the arguments: a norm that also takes a condition or a gate is no plain norm."""
        tagged = [
            tensor
            for tensor in iter_nested_tensors((args, kwargs))
            if self.run.find_tag_of_tensor(tensor)
        ]
        return tagged[0] if len(tagged) == 1 else None

    def refuse_conditioned_norm_layer(self, key: Key, args: Args, kwargs: Kwargs) -> None:
        """Refuse to recognise a norm module with several activations, if the stream is among them."""
        tags = [
            self.run.find_tag_of_tensor(tensor) for tensor in iter_nested_tensors((args, kwargs))
        ]
        if any(tag and tag.raw for tag in tags):
            self.run.strange_norms.add(key)

    def evaluate_norm_layer(
        self, key: Key, arguments: torch.Tensor, norm: Function, args: Args, kwargs: Kwargs
    ) -> Output:
        """A norm's result, or its input where norms are ablated."""
        tag = self.run.find_tag_of_tensor(arguments) or Tag(self.run)
        self.inside_norm = True
        try:
            result = norm(*args, **kwargs)
        finally:
            self.inside_norm = False
        if not isinstance(result, torch.Tensor) or result.shape != arguments.shape:
            for tensor in iter_nested_tensors(result):
                attach_stream_tag(tensor, derive_tag_off_residual_stream([tag]))
            return result
        if not self.parts.does_ablation_keep_norm_layer(key, tag.point):
            result = arguments.clone().to(result.dtype)
        if tag.point:
            point = self.run.make_residual_stream_point("norm", tag.point, key)
            attach_stream_tag(result, tag.move_tag_to_residual_stream_point(point))
            self.run.record_residual_stream_at_point(point, result)
        else:
            if tag.raw:
                self.run.strange_norms.add(key)
            attach_stream_tag(
                result,
                derive_tag_off_residual_stream([tag])._replace(
                    bare=(*tag.bare, UntouchedResult("norm", key))
                ),
            )
        return result
