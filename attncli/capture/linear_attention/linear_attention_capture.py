"""The linear layers of a model: which calls of its token mixers have maps, and these maps as strips while it runs.

Which call and which argument have a map is tested on a short input; on every input the map is compared with the call's
output, so that a layer that changed is refused.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.linear_attention.calls_inside_mixers import (
    KernelCall,
    record_calls_inside_mixers,
)
from attncli.capture.linear_attention.find_scans_in_forward_code import (
    MixerCodeStep,
    RecordedSteps,
    StepRecorder,
    find_forward_code,
    find_linear_step_of_forward,
    record_mixer_forwards,
)
from attncli.capture.linear_attention.linear_attention_heads import (
    LinearAttentionLayer,
    LinearAttentionLayers,
)
from attncli.capture.linear_attention.linear_attention_maps import (
    NONE,
    LinearAttentionMap,
    LinearMapStrip,
    does_output_combine_tokens,
)
from attncli.capture.linear_attention.linearity_tests import (
    ValueArgument,
    find_value_tensor_argument,
)
from attncli.capture.linear_attention.shortcuts_for_long_linear_maps import find_faster_map_methods
from attncli.capture.other_mixers.token_mixers import TokenMixer
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.capture.softmax_attention.attention_interface import (
    Strip,
    count_rows_within_memory,
    emit_map_rows_while_requested,
)
from attncli.capture.softmax_attention.attention_site_names import LINEAR, AttentionSite
from attncli.errors import InputError, NonFiniteNumbers
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.tolerances import LINEAR_MAP

WHOLE = 4
"""Memory for whole maps of single channels, in units of that for strips: these maps are slow to compute by rows."""


def find_linear_attention_layers(
    model: nn.Module, mixers: Sequence[TokenMixer], inputs: Inputs, *lengths: int
) -> LinearAttentionLayers:
    """Find linear layers: try the calls of every class of mixers once; `lengths`: token counts that `inputs` may have."""
    if not mixers:
        return LinearAttentionLayers()
    modules = {path: model.get_submodule(path) for mixer in mixers for path in mixer.paths}
    calls: dict[nn.Module, list[KernelCall]] = {module: [] for module in modules.values()}
    with (
        torch.no_grad(),
        record_calls_inside_mixers(calls, lambda mixer, call: calls[mixer].append(call)),
    ):
        model(**inputs)
    known = {
        type(module): find_calls_linear_in_values(calls[module], lengths)
        for module in select_first_module_of_each_class(modules)
    }
    rest = [
        module for module in select_first_module_of_each_class(modules) if not known[type(module)]
    ]
    steps = find_scans_in_forward_code(model, rest, inputs, lengths)
    found: list[LinearAttentionLayer] = []
    refused: dict[str, str] = {}
    for mixer in mixers:
        for path in mixer.paths:
            module = modules[path]
            own, step = known[type(module)], steps.get(type(module))
            if own:
                found += iter_linear_attention_layers(mixer, path, own, calls[module])
            elif step is not None:
                found += iter_linear_attention_layers(
                    mixer,
                    path,
                    {step.call.function_and_call_number: step.values},
                    [step.call],
                    step.step,
                )
            else:
                refused[mixer.kind] = explain_why_no_call_is_linear(calls[module], module)
    kinds = {mixer.kind for mixer in mixers} - set(refused)
    return LinearAttentionLayers(tuple(found), refused, frozenset(kinds))


def select_first_module_of_each_class(modules: Mapping[str, nn.Module]) -> list[nn.Module]:
    """The first module of each class."""
    first: dict[type, nn.Module] = {}
    for module in modules.values():
        first.setdefault(type(module), module)
    return list(first.values())


class MixerInnerCall(NamedTuple):
    """A step of a mixer's forward that has maps."""

    step: MixerCodeStep
    values: ValueArgument
    call: KernelCall


def find_scans_in_forward_code(
    model: nn.Module, mixers: Sequence[nn.Module], inputs: Inputs, lengths: Sequence[int]
) -> dict[type, MixerInnerCall]:
    """Find steps with maps inside forwards of mixers none of whose calls has one, by class."""
    if not mixers:
        return {}
    found: dict[type, MixerInnerCall] = {}
    for mixer, seen in record_mixer_forwards(model, mixers, inputs).items():
        with torch.no_grad():
            steps = (find_linear_step_of_forward(seen, tokens) for tokens in lengths)
            step, values = next((each for each in steps if each), (None, None))
        call = None if step is None else seen.build_call_replaying_forward_steps(step)
        if step is not None and values is not None and call is not None:
            found[type(mixer)] = MixerInnerCall(step, values, call)
    return found


def find_calls_linear_in_values(
    calls: Sequence[KernelCall], lengths: Sequence[int]
) -> dict[tuple[str, int], ValueArgument]:
    """Find the calls of a mixer with maps: the last such function, as often as it is called; earlier ones feed its values.

    A call with no input but its values, such as a shift by one token, has the same map for all texts: it is taken only where
    there is no other. Methods come last, as the functions inside them say more where these can be seen; a call that only
    permutes tokens is no mixer's map.
    """
    candidates = [call for call in calls if len(call.select_floating_arguments()) > 1]
    others = [
        call for call in calls if len(call.select_floating_arguments()) <= 1 and not call.is_method
    ]
    methods = [call for call in candidates if call.is_method]
    candidates = [call for call in candidates if not call.is_method]
    for tokens, last in product(
        lengths, (*reversed(candidates), *reversed(others), *reversed(methods))
    ):
        values = find_value_tensor_argument(last, tokens)
        if values is not None and (not last.is_method or does_output_combine_tokens(last, values)):
            found = {
                call.function_and_call_number: find_value_tensor_argument(call, tokens)
                for call in calls
                if call.name == last.name
            }
            return {place: values for place, values in found.items() if values is not None}
    return {}


def explain_why_no_call_is_linear(calls: Sequence[KernelCall], mixer: nn.Module) -> str:
    if any(weight.dtype.itemsize < 4 for weight in mixer.parameters()):
        return (
            "no function that it calls is linear in an argument that reaches other tokens, and steps of its forward are rounded "
            "too much to tell in half precision: choose `dtype` float32"
        )
    tried = ", ".join(dict.fromkeys(call.name for call in calls))
    if not tried:
        return "it calls no function whose arguments could be tried, and no step of its forward is linear in an earlier one"
    return (
        "nothing that it calls is linear in an argument that reaches other tokens, and no step of its forward in an earlier "
        f"one (tried: {tried})"
    )


def iter_linear_attention_layers(
    mixer: TokenMixer,
    path: str,
    own: Mapping[tuple[str, int], ValueArgument],
    calls: Iterable[KernelCall],
    step: MixerCodeStep | None = None,
) -> Iterator[LinearAttentionLayer]:
    """Iterate over the layers of one module; several of a kind are numbered."""
    there = {call.function_and_call_number: call for call in calls}
    alone = len(mixer.paths) == 1
    for number, (place, values) in enumerate(own.items(), 1):
        if place not in there:
            continue
        words = [mixer.kind] if alone else [mixer.kind, path.rpartition(".")[2]]
        words += [] if number == 1 else [str(number)]
        site = AttentionSite(mixer.stack, mixer.layer, " ".join(words), LINEAR, path)
        ways = find_faster_map_methods(there[place], values) if step is None else NONE
        yield LinearAttentionLayer(
            site, place, values, count_linear_attention_heads(there[place], values), ways, step
        )


def count_linear_attention_heads(call: KernelCall, values: ValueArgument) -> int:
    shape = call.select_floating_arguments()[values.key].shape
    heads = 1
    for axis, size in enumerate(shape):
        heads *= 1 if axis in (0, values.token, values.shared_axis) else size
    return heads


Observe = Callable[[AttentionSite, Strip], bool | None]


@contextmanager
def capture_linear_attention(
    model: nn.Module,
    layers: Collection[LinearAttentionLayer],
    heads: Mapping[AttentionSite, Sequence[int]],
    observe: Observe,
    memory: int,
) -> Iterator[Mapping[AttentionSite, float]]:
    """Within, every forward pass emits the maps of these layers to `observe`; its output is unchanged.

    What it yields has the reconstruction error ‖A v - y‖ / ‖y‖ of each, once it has run.
    """
    missed: dict[AttentionSite, float] = {}
    modules = {layer.site.name: model.get_submodule(layer.site.name) for layer in layers}
    there = {(modules[layer.site.name], layer.place): layer for layer in layers}

    def emit_attention_maps_of_call(mixer: nn.Module, call: KernelCall) -> None:
        layer = there.get((mixer, call.function_and_call_number))
        if layer is not None:
            with torch.autocast(
                call.select_floating_arguments()[layer.values.key].device.type, enabled=False
            ):
                missed[layer.site] = emit_linear_attention_maps(
                    layer, call, heads[layer.site], observe, memory
                )

    stepped = {modules[layer.site.name]: layer.step for layer in layers if layer.step is not None}

    def run_mixer_and_capture_scan(
        forward: Function, mixer: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        seen, step = RecordedSteps(forward, args, kwargs, find_forward_code(mixer)), stepped[mixer]
        with StepRecorder(seen, (step.value_place, step.output_place)):
            found = forward(*args, **kwargs)
        if (call := seen.build_call_replaying_forward_steps(step)) is not None:
            emit_attention_maps_of_call(mixer, call)
        return found

    with (
        record_calls_inside_mixers(modules.values(), emit_attention_maps_of_call),
        wrap_forwards(stepped, run_mixer_and_capture_scan),
    ):
        yield missed
    missing = [layer.site for layer in layers if layer.site not in missed]
    if missing:
        raise InputError(
            f"layer {missing[0].layer} ({missing[0].name}) has a map on the short input on which it was proved, and does not "
            "run here: how the model mixes its tokens depends on its input, which is not understood."
        )


def emit_linear_attention_maps(
    layer: LinearAttentionLayer,
    call: KernelCall,
    heads: Sequence[int],
    observe: Observe,
    memory: int,
) -> float:
    """Emit the maps of one layer, strip by strip; return the reconstruction error of A v against y."""
    if call.select_floating_arguments()[layer.values.key].ndim != layer.values.axes:
        raise InputError(
            f"layer {layer.site.layer} ({layer.site.name}) is given its values in another order here than on the short input on "
            "which its map was proved (in chunks, or sorted): leave the layer out with `layers`."
        )
    chosen = None if len(heads) == layer.heads else heads
    maps = LinearAttentionMap(call, layer.values, chosen, layer.shortcuts)
    rows = count_rows_within_memory(
        memory, len(heads) * maps.tokens * maps.value_tensor.element_size()
    )
    outputs, missed = maps.compute_linear_part_of_output(), 0.0

    def iter_map_rows(number: int) -> Iterator[Strip]:
        nonlocal missed
        for strip in maps.iter_map_rows(rows, WHOLE * memory):
            if number == 0:
                part = slice(strip.first, strip.first + strip.weights.shape[1])
                left = move_to_float64_device(
                    maps.apply_map_rows_to_values(strip) - outputs[:, part]
                )
                missed += float(left.double().square().sum())
            yield build_linear_map_rows(layer, strip, maps.tokens)

    emit_map_rows_while_requested(iter_map_rows, lambda strip: bool(observe(layer.site, strip)))
    return check_output_reconstruction(layer.site, missed, outputs)


def build_linear_map_rows(layer: LinearAttentionLayer, strip: LinearMapStrip, tokens: int) -> Strip:
    """Make a strip: |A| normalised by row along with the map itself, up to the last key that the rows see."""
    weights, first = strip.weights[None], strip.first
    visible = None
    if layer.values.causal:
        last = first + weights.shape[2]
        hidden = weights.new_ones(weights.shape[2:], dtype=torch.bool).triu(first + 1)
        if bool(weights.masked_select(hidden).any()):
            site = layer.site
            raise InputError(
                f"layer {site.layer} ({site.name}) takes from later tokens here, and did not on the short input."
            )
        weights, visible = weights[..., :last], ~hidden[None, None, :, :last]
    sizes = weights.abs()
    shares = sizes / sizes.sum(dim=-1, keepdim=True).clamp_min(torch.finfo(sizes.dtype).tiny)
    return Strip(shares, first, 0, tokens, tokens, visible, signed_map=weights)


def check_output_reconstruction(site: AttentionSite, missed: float, outputs: Tensor) -> float:
    """Check that ‖A v - y‖ / ‖y‖ is small enough."""
    size = float(move_to_float64_device(outputs).double().square().sum())
    found = sqrt(missed / size) if size > 0.0 else missed
    if found != found:
        raise NonFiniteNumbers(
            f"layer {site.layer} ({site.name}): its map is not finite; the weights or the states before it are not."
        )
    if found > LINEAR_MAP.tolerance_for_dtype(outputs.dtype):
        raise InputError(
            f"layer {site.layer} ({site.name}): its map times its values misses its output by {found:.1e} of its size, so "
            "the map cannot be vouched for: leave the layer out with `layers`."
        )
    return found
