"""Token mixers in a model's layers other than attention: recurrences, convolutions, kernels.

They are found by tests, not names: a submodule of a block mixes tokens if another state of one token changes its output
for others. Blocks of one structure are tested once. A mixer has the name of its class, without the words with which the
block's class begins too.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import iter_nested_tensors
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_structure.blocks import BlockStack
from attncli.capture.model_structure.residual_stream import (
    find_residual_stream_input,
    replace_tensor_argument,
)
from attncli.capture.softmax_attention.attention_site_names import AttentionSite, MapShape
from attncli.capture.softmax_attention.tensor_parallel_heads import find_tensor_parallel_group
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.tolerances import TOKEN_MIXING

WORD = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+(?:\d+[dD]?(?![a-z]))?")
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
EMPTY = frozenset({"mixer", "layer", "block", "module", "cell", "encoder", "decoder"})
"""Words that do not describe how tokens are mixed."""


@dataclass(frozen=True)
class TokenMixer:
    """A token mixer in one layer."""

    stack: str
    layer: int
    kind: str
    """Its kind, such as `gated delta net`."""
    paths: tuple[str, ...] = ()
    """Paths of the modules of this kind in this layer."""


@dataclass
class ModuleInputs:
    """The inputs of a module."""

    args: Args
    kwargs: Kwargs


def find_token_mixers(
    model: nn.Module,
    stacks: tuple[BlockStack, ...],
    inputs: Inputs,
    shapes: Mapping[AttentionSite, MapShape],
    length: int = 0,
) -> tuple[TokenMixer, ...]:
    """Find mixers; `shapes`: of the captured attentions on these inputs; `length`: tokens, if nothing attends."""
    queries = {model.get_submodule(site.name): shape.queries for site, shape in shapes.items()}
    return find_token_mixers_besides_attention(
        model, stacks, inputs, queries, 0 if shapes else length
    )


def find_token_mixers_besides_attention(
    model: nn.Module,
    stacks: tuple[BlockStack, ...],
    inputs: Inputs,
    queries: Mapping[nn.Module, int],
    length: int,
) -> tuple[TokenMixer, ...]:
    """Find mixers; `queries`: the modules that attend, with their tokens; `length`: tokens of blocks where these differ.

    Parts of a layer that runs over several processes are not tested.
    """
    if find_tensor_parallel_group(model) is not None:
        return ()
    seen = set(queries)
    calls = [(stack, call) for stack in stacks for call in stack.calls]
    # blocks of one structure behave alike: the same submodules, of which the same attend
    makes = {
        call.module: tuple(
            (path, type(part), part in seen) for path, part in call.module.named_modules()
        )
        for _, call in calls
    }
    chosen = {make: module for module, make in makes.items()}
    inputs_by_module = record_module_inputs(
        model, inputs, {part for block in chosen.values() for part in block.modules()}
    )
    tokens = {
        call.module: count_tokens_of_attention([call.module], queries)
        or count_tokens_of_attention([other.module for other in stack.calls], queries)
        or length
        for stack, call in calls
    }
    with torch.no_grad():
        kinds = {
            make: group_mixers_by_kind(
                block, iter_token_mixing_submodules(block, inputs_by_module, seen, tokens[block])
            )
            for make, block in chosen.items()
        }
    return tuple(
        TokenMixer(
            stack.name, call.layer, kind, tuple(f"{call.name}.{path}".rstrip(".") for path in paths)
        )
        for stack, call in calls
        for kind, paths in kinds[makes[call.module]].items()
    )


def group_mixers_by_kind(
    block: nn.Module, modules: Iterator[tuple[str, nn.Module]]
) -> dict[str, list[str]]:
    """The paths of the submodules of a block that mix tokens, by kind."""
    kinds: dict[str, list[str]] = {}
    for path, part in modules:
        kinds.setdefault(name_token_mixer_kind(part, path, block), []).append(path)
    return kinds


def record_module_inputs(
    model: nn.Module, inputs: Inputs, modules: Collection[nn.Module]
) -> dict[nn.Module, ModuleInputs]:
    """Record the inputs of these modules in a forward of the model."""
    inputs_by_module: dict[nn.Module, ModuleInputs] = {}

    def run_and_record_inputs(
        forward: Function, module: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        inputs_by_module[module] = ModuleInputs(args, kwargs)
        return forward(*args, **kwargs)

    if modules:
        with torch.no_grad(), wrap_forwards(modules, run_and_record_inputs):
            model(**inputs)
    return inputs_by_module


def iter_token_mixing_submodules(
    block: nn.Module,
    inputs: Mapping[nn.Module, ModuleInputs],
    attentions: Collection[nn.Module],
    tokens: int,
) -> Iterator[tuple[str, nn.Module]]:
    """The submodules of a block that mix tokens and contain no captured attention, with their paths.

    One that only wraps another is left out; one with a convolution of its own is more than what it wraps.
    """
    inside = [
        (f"{path}.{deeper}".rstrip("."), part)
        for path, child in iter_called_submodules(block, inputs)
        if not type(child).__module__.startswith("torch.nn")  # a part of the block itself
        and (child in attentions or is_mixing_tokens(child, inputs[child], tokens))
        for deeper, part in iter_token_mixing_submodules(child, inputs, attentions, tokens)
    ]
    whole = any(isinstance(child, CONVOLUTIONS) for child in block.children())
    if any(part in attentions for part in block.modules()) or (len(inside) == 1 and not whole):
        yield from inside
    elif is_mixing_tokens(block, inputs[block], tokens):
        yield "", block


def iter_called_submodules(
    module: nn.Module, inputs: Mapping[nn.Module, ModuleInputs], path: str = ""
) -> Iterator[tuple[str, nn.Module]]:
    """The submodules that a module runs, also those in its lists."""
    for name, child in module.named_children():
        here = f"{path}.{name}".lstrip(".")
        if child in inputs:
            yield here, child
        else:
            yield from iter_called_submodules(child, inputs, here)


def count_tokens_of_attention(
    blocks: Collection[nn.Module], queries: Mapping[nn.Module, int]
) -> int:
    """The token count of all attentions of these blocks; 0 where they differ or there are none."""
    found = {queries[part] for block in blocks for part in block.modules() if part in queries}
    return found.pop() if len(found) == 1 else 0


def is_mixing_tokens(module: nn.Module, inputs: ModuleInputs, tokens: int) -> bool:
    """Whether another state of the middle token changes the module's output for others; False where that cannot be tested."""
    stream = find_residual_stream_input(inputs.args, inputs.kwargs)
    if stream is None or (axis := find_token_axis(stream, tokens)) is None:
        return False
    if axis == stream.ndim - 1 and any(p.shape[-1] == tokens for p in module.parameters()):
        return False  # as many features as tokens
    return any(
        do_outputs_differ_at_other_tokens(a, b, find_token_axis(a, tokens), tokens // 2)
        for a, b in compare_outputs_with_moved_token(module, inputs, stream, axis)
    )


def compare_outputs_with_moved_token(
    module: nn.Module, inputs: ModuleInputs, stream: Tensor, axis: int
) -> list[tuple[Tensor, Tensor]]:
    """Each output as it is, and with another state of the middle token; none where the module cannot be called again or
    does not repeat its outputs."""
    moved = stream.clone()
    middle = moved.select(axis, stream.shape[axis] // 2)
    middle.add_(sample_noise_like(middle))
    try:
        first, again, other = (
            compute_outputs_with_new_hidden_state(module, inputs, stream, each.clone())
            for each in (stream, stream, moved)
        )
    except Exception:  # submodules with an unusual calling convention cannot be called again
        return []
    if any(not torch.equal(a, b) for a, b in zip(first, again, strict=True)):
        return []
    return list(zip(first, other, strict=True))


def compute_outputs_with_new_hidden_state(
    module: nn.Module, inputs: ModuleInputs, stream: Tensor, instead: Tensor
) -> list[Tensor]:
    args, kwargs = replace_tensor_argument(inputs.args, inputs.kwargs, stream, instead)
    found = module(*args, **kwargs)
    return [value for value in iter_nested_tensors(found) if value.is_floating_point()]


def find_token_axis(tensor: Tensor, tokens: int) -> int | None:
    """[batch, token, feature], [token, feature] or [batch, feature, token]; None for anything else."""
    if tensor.ndim not in (2, 3) or tokens < 2:
        return None
    axes = (tensor.ndim - 2, tensor.ndim - 1)
    return next((axis for axis in axes if tensor.shape[axis] == tokens), None)


def sample_noise_like(like: Tensor) -> Tensor:
    """Noise as large as the state itself."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(like.shape, generator=generator, dtype=torch.float32)
    return drawn.to(like) * like.abs().mean().clamp_min(1e-3)


def do_outputs_differ_at_other_tokens(
    first: Tensor, other: Tensor, axis: int | None, place: int
) -> bool:
    """Whether two outputs differ at other tokens than this one, by more than rounding."""
    if axis is None or first.shape != other.shape:
        return False
    change = (first - other).abs()
    change.select(axis, place).zero_()
    least = TOKEN_MIXING.tolerance_for_dtype(first.dtype) * float(first.abs().max())
    return bool(change.max() > least)


def name_token_mixer_kind(mixer: nn.Module, path: str, block: nn.Module) -> str:
    """The words of its class with which the block's class does not begin; the module's own name if these are empty words."""
    words = split_class_name_into_words(type(mixer).__name__)
    known = split_class_name_into_words(type(block).__name__) if mixer is not block else []
    while words and known and words[0] == known[0]:
        words, known = words[1:], known[1:]
    if EMPTY.issuperset(words):
        own = path.rpartition(".")[2].strip("_").replace("_", " ")
        words = [*own.split(), *(word for word in words if word not in own.split())]
    if EMPTY.issuperset(words):
        words = split_class_name_into_words(type(mixer).__name__)
    return " ".join(words)


def split_class_name_into_words(name: str) -> list[str]:
    """`GatedDeltaNet` as gated, delta, net."""
    return [word.lower() for word in WORD.findall(name)]


def pluralise_mixer_kind(kind: str) -> str:
    return kind if kind.endswith(("s", "attention")) else f"{kind}s"


def format_layer_numbers(layers: Iterable[int]) -> str:
    """`layers 0-2, 4`."""
    ordered = sorted(set(layers))
    runs = [
        [layer for _, layer in run]
        for _, run in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    ]
    ranges = ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
    return f"layer{'' if len(ordered) == 1 else 's'} {ranges}"
