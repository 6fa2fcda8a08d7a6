"""Attention that cannot be captured: a softmax that weights no whole rows of values.

Chunked, sampled (deformable) and additive attention are such. Other maps of the same model remain valid: every captured
map went into a product with its own values, and the output under capture is the plain one. A softmax may also mix what
are no tokens, the streams of hyper-connections. Which it is, is tested: does another state of one token change the
module's output for others?
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import iter_nested_tensors
from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.model_structure.residual_stream import find_residual_stream_input
from attncli.capture.other_mixers.token_mixers import (
    ModuleInputs,
    TokenMixer,
    compare_outputs_with_moved_token,
    do_outputs_differ_at_other_tokens,
    record_module_inputs,
)
from attncli.capture.reruns.seed_and_precision import fix_random_seed
from attncli.capture.softmax_attention.attention_site_names import NUMBER, AttentionSite
from attncli.errors import InputError
from attncli.forward_argument_types import Inputs


class UncapturableAttention(NamedTuple):
    """Modules of one family whose softmax weights no whole rows of values."""

    family: str
    """Their path, with a star for the numbers in it."""
    kind: str
    """Their class."""
    reaches: bool | None
    """Whether they mix tokens; None where that could not be tested."""

    def describe_why_no_map(self) -> str:
        """Describe it for readers of the other attentions' numbers."""
        if self.reaches is False:
            return (
                f"{self.family} ({self.kind}) takes a softmax that reaches no other token: "
                "it is no attention, and not among those measured."
            )
        return (
            f"{self.family} ({self.kind}) takes a softmax that never weighs whole rows of values (chunked, sparse or "
            "deformable attention): it has no map here and is not among the attentions measured."
        )


def find_mixers_with_uncapturable_attention(
    stacks: tuple[BlockStack, ...],
    uncapturable: Iterable[UncapturableAttention],
    known: Iterable[TokenMixer],
    model: nn.Module,
) -> tuple[TokenMixer, ...]:
    """The layers in which such attention mixes tokens, unless they are among the known mixers."""
    families = {one.family for one in uncapturable if one.reaches is not False}
    paths = [name for name, _ in model.named_modules() if NUMBER.sub("*", name) in families]
    known_paths = [path for mixer in known for path in mixer.paths]
    return tuple(
        TokenMixer(stack.name, call.layer, "unseen attention", inside)
        for stack in stacks
        for call in stack.calls
        if (inside := tuple(path for path in paths if is_module_path_within(path, call.name)))
        and not any(is_module_path_within(path, other) for path in inside for other in known_paths)
    )


def refuse_uncapturable_attention(uncapturable: Iterable[UncapturableAttention]) -> None:
    """Refuse such attention in questions about all that a model attends to."""
    for one in uncapturable:
        if one.reaches is not False:
            raise InputError(one.describe_why_no_map())


def refuse_partial_capture(
    model: nn.Module,
    unclaimed: Iterable[nn.Module],
    sites: Collection[AttentionSite],
    apart: Collection[str] | None,
) -> None:
    """Refuse such modules unless they are known, separate from all captured ones, and not the model's only attention.

    A module of a captured module's family, or around or inside it, would have been captured in part. `apart`: the families
    that are known; None while they are being found.
    """
    names = {module: name for name, module in model.named_modules()}
    seen = {NUMBER.sub("*", site.name) for site in sites}
    for module in unclaimed:
        family = NUMBER.sub("*", names[module])
        known = apart is None or family in apart
        if (
            not known
            or not seen
            or any(
                is_module_path_within(family, other) or is_module_path_within(other, family)
                for other in seen
            )
        ):
            raise InputError(
                f"{type(module).__name__} takes a softmax that never weighs whole rows of values (chunked, sparse or "
                "deformable attention): its maps cannot be captured."
            )


def is_module_path_within(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}.")


def find_uncapturable_attention(
    model: nn.Module, inputs: Inputs, unclaimed: Collection[nn.Module], tokens: set[int]
) -> tuple[UncapturableAttention, ...]:
    """Find these modules by family, testing the first of each; `tokens`: token counts of the captured attentions."""
    names = {module: name for name, module in model.named_modules()}
    first: dict[tuple[str, str], nn.Module] = {}
    for module in unclaimed:
        first.setdefault((NUMBER.sub("*", names[module]), type(module).__name__), module)
    with torch.no_grad(), fix_random_seed():
        inputs_by_module = record_module_inputs(model, inputs, first.values())
        return tuple(
            UncapturableAttention(
                *make, does_module_mix_tokens(module, inputs_by_module[module], tokens)
            )
            for make, module in first.items()
        )


def does_module_mix_tokens(
    module: nn.Module, inputs: ModuleInputs, tokens: set[int]
) -> bool | None:
    """Whether another state of the middle token changes the module's output for others.

    Tested only where the module has one such input, and exactly one axis between batch and features is as long as the
    tokens: a module that takes another stack's states attends to these.
    """
    stream = find_residual_stream_input(inputs.args, inputs.kwargs)
    axis = None if stream is None else find_single_token_axis(stream, tokens)
    if stream is None or axis is None or len(find_tensors_with_token_axis(inputs)) > 1:
        return None
    outputs = compare_outputs_with_moved_token(module, inputs, stream, axis)
    axes = [find_single_token_axis(value, {stream.shape[axis]}) for value, _ in outputs]
    if not outputs or any(place is None for place in axes):
        return None
    return any(
        do_outputs_differ_at_other_tokens(a, b, place, stream.shape[axis] // 2)
        for (a, b), place in zip(outputs, axes, strict=True)
    )


def find_tensors_with_token_axis(inputs: ModuleInputs) -> list[Tensor]:
    """The tensors with an axis between those of batch and features."""
    tensors = iter_nested_tensors((inputs.args, inputs.kwargs))
    return [value for value in tensors if value.is_floating_point() and value.ndim >= 3]


def find_single_token_axis(tensor: Tensor, lengths: set[int]) -> int | None:
    """The one axis of tokens; there must be several tokens."""
    axes = [axis for axis in range(1, tensor.ndim - 1) if tensor.shape[axis] in lengths - {1}]
    return axes[0] if len(axes) == 1 else None
