"""Verify that the captured attention is the model's own: on every strip, and once on a short input.

A wrong capture yields plausible numbers, so nothing is reported without these checks.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import unseen
from attncli.capture.attention_capture import Capture, capture_attention
from attncli.capture.attention_function_registry import force_eager_attention
from attncli.capture.forward_wrappers import wrap_forwards
from attncli.capture.model_errors import run_model_or_refuse_input
from attncli.capture.other_mixers.uncapturable_attention import (
    UncapturableAttention,
    find_uncapturable_attention,
)
from attncli.capture.reruns.seed_and_precision import fix_random_seed
from attncli.capture.softmax_attention.attention_interface import ALIVE, Strip
from attncli.capture.softmax_attention.attention_site_names import (
    CROSS,
    NUMBER,
    AttentionSite,
    MapShape,
)
from attncli.errors import AttnError, InputError, NoAttention, NonFiniteNumbers
from attncli.forward_argument_types import Args, Function, Inputs, Kwargs, Output
from attncli.tolerances import CAPTURED_OUTPUT

STRIPS = 4
"""Strips of each map of the verified input, so that maps are really joined from several."""


@dataclass
class CaptureEvidence:
    """What the strips of one forward pass show of each attention."""

    above_diagonal: dict[AttentionSite, float] = field(default_factory=dict)
    """Largest weight on a later token than the query's own."""
    ahead: dict[AttentionSite, tuple[float, float]] = field(default_factory=dict)
    """The same for the first and the last keys alone, as many as queries: others may be a prefix or compressed."""
    output: Sequence[Tensor] = ()
    """What the model returned."""
    stream: Capture | None = None

    def record_evidence_of_map_rows(self, site: AttentionSite, strip: Strip) -> None:
        with unseen():
            largest = find_largest_future_weight(strip)
            here = (largest, largest)
            if strip.keys != strip.queries:
                more = max(0, strip.keys - strip.queries)
                here = (
                    find_largest_future_weight(strip, 0, strip.queries),
                    find_largest_future_weight(strip, more, strip.keys),
                )
        self.above_diagonal[site] = max(self.above_diagonal.get(site, 0.0), largest)
        first, last = self.ahead.get(site, (0.0, 0.0))
        self.ahead[site] = max(first, here[0]), max(last, here[1])


@dataclass(frozen=True)
class VerifiedCapture:
    """What is known of a model's attention after verification."""

    sites: tuple[AttentionSite, ...]
    shapes: Mapping[AttentionSite, MapShape]
    """Shapes of the maps on the short input."""
    causal: frozenset[AttentionSite]
    """Attentions that put no weight on later tokens."""
    whole_maps: tuple[AttentionSite, ...]
    """Attentions off the interface, whose maps come whole."""
    difference: float
    """The change of the output under capture, relative to its size."""
    eager_alone: bool
    """Whether the configured attention implementation computes something else than eager attention."""
    left_out: tuple[UncapturableAttention, ...] = ()
    """Modules with a softmax that weights no values."""

    @property
    def module_paths_of_separate_softmaxes(self) -> frozenset[str]:
        """The paths of these modules, with stars for numbers."""
        return frozenset(each.family for each in self.left_out)


NOTHING_ATTENDS = VerifiedCapture((), {}, frozenset(), (), 0.0, False)
"""The result for a model in which no softmax weights values."""


def verify_capture(
    model: nn.Module,
    inputs: Inputs,
    as_set: Sequence[Tensor] | None = None,
    evidence: CaptureEvidence | None = None,
) -> VerifiedCapture:
    """Run the verified input plain and under capture; InputError where anything does not agree.

    `as_set`: what a plain pass returned that was run already; `evidence`: of such a pass under capture. The model's eager
    attention runs plain only where the output under capture is not that of the model as it is set.
    """
    as_set = run_unpatched_model(model, inputs) if as_set is None else as_set
    evidence = evidence or run_model_under_capture(model, inputs, as_set)
    stream, captured = evidence.stream, evidence.output
    assert stream is not None
    refuse_missed_attention(model, stream)
    allowed = CAPTURED_OUTPUT.tolerance_for_dtype(find_floating_dtype_of_model(model))
    difference = compute_largest_output_difference(as_set, captured)
    eager_alone = not difference <= allowed
    if eager_alone:
        difference = compute_largest_output_difference(
            run_model_with_eager_attention(model, inputs, as_set), captured
        )
    if not difference <= allowed:
        raise InputError(
            f"{type(model).__name__}: the output under capture differs from the plain one by {difference:.1e} of its "
            f"size (allowed: {allowed:.0e}), so its attention cannot be vouched for."
        )
    refuse_weight_on_future_keys(model, stream, evidence)
    tokens, unclaimed = (
        {shape.queries for shape in stream.shapes.values()},
        stream.watcher.unclaimed,
    )
    return VerifiedCapture(
        tuple(stream.captured),
        stream.shapes,
        frozenset(site for site, weight in evidence.above_diagonal.items() if weight == 0.0),
        tuple(site for site in stream.captured if site.name not in stream.on_interface),
        difference,
        eager_alone,
        find_uncapturable_attention(model, inputs, unclaimed, tokens) if unclaimed else (),
    )


def run_unpatched_model(model: nn.Module, inputs: Inputs) -> list[Tensor]:
    """The output of the unchanged model; refuse one whose own code fails."""
    with torch.no_grad(), fix_random_seed():
        return list_output_tensors(run_model_or_refuse_input(model, inputs))


def run_model_with_eager_attention(
    model: nn.Module, inputs: Inputs, as_set: Sequence[Tensor]
) -> list[Tensor]:
    """The output with the model's own eager attention; refuse it where it fails, or has NaN and the model as set has none."""
    how = f"with its eager attention in {str(find_floating_dtype_of_model(model)).removeprefix('torch.')}"
    with torch.no_grad(), fix_random_seed(), force_eager_attention(model):
        eager = list_output_tensors(run_model_or_refuse_input(model, inputs, how))
    refuse_broken_eager_attention(model, as_set, eager)
    return eager


def run_model_under_capture(
    model: nn.Module, inputs: Inputs, as_set: Sequence[Tensor]
) -> CaptureEvidence:
    """The evidence of a pass under capture."""
    try:
        with torch.no_grad(), fix_random_seed(), gather_capture_evidence(model, inputs) as evidence:
            model(**inputs)
    except Exception as error:
        if isinstance(error, NonFiniteNumbers) or not isinstance(error, AttnError):
            run_model_with_eager_attention(
                model, inputs, as_set
            )  # what is wrong with the model's own code comes first
        raise
    return evidence


@contextmanager
def gather_capture_evidence(model: nn.Module, inputs: Inputs) -> Iterator[CaptureEvidence]:
    """Within, one forward on these inputs runs under capture and shows what verification needs."""
    evidence, small = CaptureEvidence(), choose_map_row_memory(model, inputs)

    def run_model_and_keep_output(
        forward: Function, _: nn.Module, args: Args, kwargs: Kwargs
    ) -> Output:
        output = forward(*args, **kwargs)
        evidence.output = list_output_tensors(output)
        return output

    with (
        wrap_forwards([model], run_model_and_keep_output),
        capture_attention(
            model, evidence.record_evidence_of_map_rows, small, apart=None
        ) as evidence.stream,
    ):
        yield evidence


def refuse_broken_eager_attention(
    model: nn.Module, as_set: Sequence[Tensor], eager: Sequence[Tensor]
) -> None:
    """Refuse a model whose eager attention alone yields no numbers: maps come from that code."""
    if any(map(has_nan, eager)) and not any(map(has_nan, as_set)):
        raise InputError(
            f"{type(model).__name__} gives NaN with its eager attention, by which maps are seen, and numbers as it is set: "
            "its code for eager attention is broken, so its maps cannot be captured."
        )


def has_nan(value: Tensor) -> bool:
    return bool(value.isnan().any())


def choose_map_row_memory(model: nn.Module, inputs: Inputs) -> int:
    """Bytes for a part of a map's rows."""
    heads = vars(getattr(model, "config", model)).get("num_attention_heads")
    tensors = [value for value in inputs.values() if isinstance(value, Tensor)]
    tokens = max((value.shape[1] for value in tensors if value.dim() >= 2), default=1)
    rows = -(-tokens // STRIPS)
    return ALIVE * rows * (heads if isinstance(heads, int) else 1) * tokens * 8


def refuse_missed_attention(model: nn.Module, stream: Capture) -> None:
    """Refuse a capture that missed a module of a captured class, or any of its rows."""
    stream.refuse_missed_maps_and_rows()
    if not stream.captured:
        raise NoAttention(f"{type(model).__name__}: no attention was seen in its forward pass.")
    seen = {site.name for site in stream.captured}
    kinds = {(type(model.get_submodule(name)), NUMBER.sub("*", name)) for name in seen if name}
    for name, module in model.named_modules():
        if (type(module), NUMBER.sub("*", name)) in kinds and name not in seen:
            raise InputError(f"the attention of {name} ({type(module).__name__}) was not seen.")
    refuse_indistinguishable_attentions(stream.captured)


def refuse_indistinguishable_attentions(sites: Sequence[AttentionSite]) -> None:
    """Refuse two attentions with the same stack, kind and layer: their numbers would be indistinguishable."""
    known: dict[tuple[str, str, int], AttentionSite] = {}
    for site in sites:
        other = known.setdefault(site.stack_name_kind_and_layer, site)
        if other is not site:
            raise InputError(
                f"{site.name} and {other.name} would both be reported as {site.kind} attention of layer {site.layer} in "
                f"{site.stack}: which is which is not understood."
            )


def refuse_weight_on_future_keys(
    model: nn.Module, stream: Capture, evidence: CaptureEvidence
) -> None:
    """Refuse attention that is marked causal, gets no mask and sees later tokens: sdpa would hide these.

    A mask, where there is one, decides in every implementation: LightGlue's layers are marked causal and get one that hides
    nothing. Between two stacks no token is later.
    """
    for site in stream.captured:
        module = model.get_submodule(site.name)
        claims = getattr(module, "is_causal", False) is True and not CROSS.search(site.name)
        if (
            claims
            and all(evidence.ahead[site])
            and site.name in stream.on_interface - stream.masked
            and not is_configured_bidirectional(module)
        ):
            raise InputError(
                f"{site.name} is causal by its own account and handed no mask, but its eager attention looks ahead: "
                "sdpa would not, and which of the two the model means is not known."
            )


def is_configured_bidirectional(module: nn.Module) -> bool:
    """Whether the config lifts causality: decoders that are used as bidirectional encoders."""
    config = getattr(module, "config", None)
    return getattr(config, "is_causal", True) is False or bool(
        getattr(config, "use_bidirectional_attention", False)
    )


def find_largest_future_weight(strip: Strip, start: int = 0, stop: int | None = None) -> float:
    """The largest weight above the diagonal, of only these keys if given."""
    rows, columns = strip.weights.shape[-2:]
    query = strip.first_query + torch.arange(rows, device=strip.weights.device)[:, None]
    key = strip.first_key + torch.arange(columns, device=strip.weights.device)[None, :] - start
    later = key > query
    if stop is not None:
        later &= (key >= 0) & (key < stop - start)
    return float((strip.weights * later).abs().max())


def list_output_tensors(output: Output) -> list[Tensor]:
    """All floating tensors of a model's output, in order, except maps, which only eager attention returns."""
    return [value for value in iter_output_tensors(output) if value.dtype.is_floating_point]


def iter_output_tensors(output: Output) -> Iterator[Tensor]:
    if isinstance(output, Tensor):
        yield output
    elif isinstance(output, Mapping):
        for name, value in output.items():
            if "attentions" not in str(name):
                yield from iter_output_tensors(value)
    elif isinstance(output, (list, tuple)):
        for value in output:
            yield from iter_output_tensors(value)


def compute_largest_output_difference(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    """The largest difference, relative to each tensor's size; infinite where shapes differ, nan where numbers are missing."""
    if [value.shape for value in first] != [value.shape for value in second]:
        return float("inf")
    sizes = [max(float(value.abs().max()), 1e-30) for value in first if value.numel()]
    changes = [
        float((a.cpu().double() - b.cpu().double()).abs().max())
        for a, b in zip(first, second, strict=True)
        if a.numel()
    ]
    return max((change / size for change, size in zip(changes, sizes, strict=True)), default=0.0)


def find_floating_dtype_of_model(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters() if p.dtype.is_floating_point), torch.float32)
