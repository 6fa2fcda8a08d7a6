"""Capture a model's attention strip by strip, while it runs."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from attncli.capture.attention_calls import unseen
from attncli.capture.attention_function_registry import (
    EAGER,
    force_eager_attention,
    swap_attention_functions,
)
from attncli.capture.forward_wrappers import hook_forwards
from attncli.capture.other_mixers.uncapturable_attention import refuse_partial_capture
from attncli.capture.softmax_attention.attention_interface import (
    EagerCall,
    Strip,
    attend_in_row_strips,
    count_rows_within_memory,
    find_unpatched_eager_attention,
    promote_half_to_float32,
)
from attncli.capture.softmax_attention.attention_site_names import (
    AttentionSite,
    MapShape,
    SiteNamer,
)
from attncli.capture.softmax_attention.differential_attention import (
    DifferentialPairs,
    compute_differential_lambda,
    compute_differential_map_rows,
)
from attncli.capture.softmax_attention.rowwise_masks import make_rowwise_mask
from attncli.capture.softmax_attention.softmax_and_sdpa_calls import SoftmaxCapture
from attncli.capture.softmax_attention.tensor_parallel_heads import (
    find_tensor_parallel_group,
    gather_heads_of_all_processes,
)
from attncli.errors import InputError, NonFiniteNumbers
from attncli.forward_argument_types import Function
from attncli.tolerances import ROW_SUM

if TYPE_CHECKING:
    from attncli.capture.one_pass.one_pass_checked_against_eager import OnePass

STRIP_MEMORY = 2**26
"""Bytes, at most, for the rows of all heads that are processed at a time, intermediate arrays included."""

SINK = "sink"
"""Name part of parameters that take part in the softmax and are dropped after it."""

Observe = Callable[[AttentionSite, Strip], bool | None]
"""Called with every strip; True at a map's last strip requests the whole map once more."""


class Capture:
    """Emits one model's attention to an observer."""

    def __init__(
        self,
        model: nn.Module,
        observe: Observe,
        memory: int,
        proved: Mapping[AttentionSite, MapShape] | None,
        apart: Collection[str] | None,
        one_pass: "OnePass | None" = None,
    ) -> None:
        self.model = model
        self.observe = observe
        self.memory = memory
        self.proved = proved
        """The attentions that every forward pass must have, with as many heads; None during verification."""
        self.apart = apart
        """Families of modules that may take a softmax which weights no values; None during verification."""
        self.sites = SiteNamer(model)
        self.current: AttentionSite | None = None
        """The attention off the interface whose strips come now."""
        self.captured: list[AttentionSite] = []
        """The attentions of the current forward pass, in order."""
        self.shapes: dict[AttentionSite, MapShape] = {}
        """The shapes of these attentions."""
        self.rows: Counter[AttentionSite] = Counter()
        """How many rows of each have come."""
        self.on_interface: set[str] = set()
        """Names of modules that went through the attention interface."""
        self.masked: set[str] = set()
        """Those of them that received a mask."""
        self.sinks = {
            find_module_path_of_sink_parameter(name)
            for name, _ in model.named_parameters()
            if SINK in name
        }
        """Names of modules with learned sinks, which take a share of every row."""
        self.watcher = SoftmaxCapture(model, self.emit_softmax_map_rows, memory)
        self.pairs = DifferentialPairs(model)
        self.group = find_tensor_parallel_group(model)
        """The processes that share the heads."""
        self.one_pass = one_pass
        """Attention with statistics; None where all maps come from the model's own functions."""

    def start_forward_pass(self, *_: object) -> None:
        """Start a new forward pass."""
        self.sites.start_forward_pass()
        self.captured, self.shapes, self.rows = [], {}, Counter()
        self.watcher.start_forward_pass()
        self.pairs.start_forward_pass()
        if self.one_pass is not None:
            self.one_pass.start_forward_pass()

    def check_captured_forward_pass(self, *_: object) -> None:
        """End a forward pass: check that exactly the verified attentions were captured, in full."""
        self.refuse_missed_maps_and_rows()
        if self.proved is not None:
            refuse_unverified_attentions(self.shapes, self.proved)

    def attend_and_emit_map_rows(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **keywords: Any,
    ) -> tuple[Tensor, None]:
        """Replace the model's eager attention, with the same arguments and output."""
        exact = [promote_half_to_float32(side) for side in (query, key, value)]
        more = {name: promote_half_to_float32(value) for name, value in keywords.items()}
        call = EagerCall(module, exact[0], exact[1], exact[2], attention_mask, more)
        pair = module in self.pairs.modules
        second = pair and self.pairs.is_second_softmax_call_of_layer(module, query, key)
        site = (
            self.sites.name_differential_map_site()
            if second
            else self.sites.name_attention_site(module)
        )
        share = compute_differential_lambda(module) if second else 0.0
        self.captured.append(site)
        self.on_interface.add(site.name)
        self.watcher.attended.add(module)
        if attention_mask is not None:
            self.masked.add(site.name)
        self.watcher.silent = True
        try:
            with torch.autocast(query.device.type, enabled=False):  # or it rounds the scores
                eager = find_unpatched_eager_attention(module)
                rows = count_rows_within_memory(self.memory, call.map_bytes_per_row)

                def emit_rows_applied_to_values(strip: Strip) -> bool:
                    applied = compute_differential_map_rows(strip, share) if second else strip
                    return self.check_and_emit_map_rows(site, module, applied)

                output = None
                if self.one_pass is not None and not (pair or self.group):
                    output = self.one_pass.attend_in_one_pass_if_possible(
                        eager, call, rows, emit_rows_applied_to_values
                    )
                if output is None:
                    output = attend_in_row_strips(eager, call, rows, emit_rows_applied_to_values)
            if pair:
                self.pairs.record_output_of_one_map(module, query, key, output)
        finally:
            self.watcher.silent = False
        return output.to(query.dtype), None

    def emit_softmax_map_rows(self, module: nn.Module, strip: Strip) -> bool:
        """Take a strip from SoftmaxCapture; the first row of a map begins a new site, unless the map is repeated."""
        if strip.contains_first_map_row:
            self.current = self.sites.name_attention_site(module)
            self.captured.append(self.current)
        assert self.current is not None
        return self.check_and_emit_map_rows(self.current, module, strip)

    def check_and_emit_map_rows(self, site: AttentionSite, module: nn.Module, strip: Strip) -> bool:
        """Check that a strip is attention (weights sum to one, or to less with a sink), and emit it to the observer."""
        if self.group is not None:
            strip = gather_heads_of_all_processes(strip, module, self.group)
        sums = strip.row_sums
        low, high = float(sums.min()), float(sums.max())
        if math.isnan(low) or math.isnan(high):
            raise NonFiniteNumbers(
                f"layer {site.layer} ({site.name}): the attention has NaN in row {find_map_row_with_nan(strip, sums)}; "
                "the weights or the states before it are not finite."
            )
        total = strip.total
        allowed = ROW_SUM.tolerance_for_dtype()
        if high > total + allowed or (low < total - allowed and site.name not in self.sinks):
            raise InputError(
                f"layer {site.layer} ({site.name}): rows sum to {low:.4f} … {high:.4f} instead of {total:.4g}, "
                "so this is no attention that is understood here."
            )
        if strip.round == 0:
            self.count_captured_rows(site, strip)
        with unseen():  # the observer's own computation is not the model's
            return self.observe(site, strip) is True

    def count_captured_rows(self, site: AttentionSite, strip: Strip) -> None:
        """Count one more strip of a map in its first round."""
        heads, rows = strip.weights.shape[1:3]
        self.shapes[site] = MapShape(heads, strip.queries, strip.keys)
        self.rows[site] += rows

    def refuse_missed_maps_and_rows(self) -> None:
        """Refuse a pass in which a softmax inside a captured attention was no map, or a row of a map was missed."""
        if self.watcher.unclaimed:
            refuse_partial_capture(self.model, self.watcher.unclaimed, self.captured, self.apart)
        self.pairs.refuse_unverified_map_subtractions()
        for site, shape in self.shapes.items():
            if self.rows[site] != shape.queries:
                raise InputError(
                    f"{site.name}: {self.rows[site]} of {shape.queries} rows of its attention were seen."
                )


def find_module_path_of_sink_parameter(name: str) -> str:
    """The module that a parameter's sinks belong to: they may come from a projection of its own."""
    parts = name.split(".")
    first = next(place for place, part in enumerate(parts) if SINK in part)
    return ".".join(parts[:first])


def find_map_row_with_nan(strip: Strip, sums: Tensor) -> int:
    return strip.first_query + int(sums.isnan().nonzero()[0, 2])


@contextmanager
def capture_attention(
    model: nn.Module,
    observe: Observe,
    strip_memory: int = STRIP_MEMORY,
    proved: Mapping[AttentionSite, MapShape] | None = None,
    apart: Collection[str] | None = (),
    one_pass: "OnePass | None" = None,
) -> Iterator[Capture]:
    """Every forward pass of the model in this context emits its attention to `observe` and returns its usual output.

    `proved`: the attentions that a pass must show, no more and no fewer, as `VerifiedCapture.shapes` has them. `apart`:
    families of modules whose attention cannot be captured and may be left out, as `VerifiedCapture.apart` has them; None: any.
    `one_pass`: what computes the attentions that it covers; None: the model's own functions compute all.
    """
    stream = Capture(model, observe, strip_memory, proved, apart, one_pass)
    with (
        hook_forwards(
            [(model, stream.start_forward_pass)], [(model, stream.check_captured_forward_pass)]
        ),
        force_eager_attention(model),
        replace_eager_attention(stream.attend_and_emit_map_rows),
        stream.watcher.hook_attention_modules(),
        stream.pairs.hook_map_subtraction_checks(),
        stream.sites.count_list_element_forwards(),
    ):
        yield stream


def refuse_unverified_attentions(
    shapes: Mapping[AttentionSite, MapShape], proved: Mapping[AttentionSite, MapShape]
) -> None:
    """Refuse attentions other than the verified ones: a longer input may take another path through the model's code."""
    for site, shape in shapes.items():
        if site not in proved:
            raise InputError(
                f"{site.name} attends here as layer {site.layer} ({site.kind}) of {site.stack}, and did not on the short "
                "input on which the capture was proved: how often the model attends depends on its input, which is not "
                "understood."
            )
        if shape.heads != proved[site].heads:
            raise InputError(
                f"{site.name} has {shape.heads} heads here and had {proved[site].heads} on the short input on which the capture was "
                "proved: which is which is not understood."
            )
    for site in proved:
        if site not in shapes:
            raise InputError(
                f"{site.name} attends on the short input on which the capture was proved, and does not here: how often "
                "the model attends depends on its input, which is not understood."
            )


def replace_eager_attention(attend: Function) -> AbstractContextManager[None]:
    """Within, models take the function for their eager attention, with masks that are evaluated a strip at a time."""
    return swap_attention_functions({EAGER: attend}, {EAGER: make_rowwise_mask})
