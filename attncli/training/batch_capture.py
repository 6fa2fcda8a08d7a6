"""Capture the maps of a training batch: in the step's own forward pass, or in an extra one."""

from collections.abc import Callable
from contextlib import ExitStack

import torch
from torch import Tensor, nn

from attncli.analysis.heads.forward_passes.head_observer import (
    HeadObserver,
    PassRequest,
    PassResult,
    ignore_progress_share,
)
from attncli.analysis.heads.metric_selection import MetricSelection
from attncli.capture import STRIP_MEMORY, AttentionSite, Strip
from attncli.capture.attention_function_registry import EAGER
from attncli.capture.capture_from_unchanged_forward import (
    SDPA,
    list_attention_implementations,
    observe_attention,
)
from attncli.capture.forward_wrappers import install_forward_hooks
from attncli.capture.one_pass.one_pass_checked_against_eager import OnePass
from attncli.capture.softmax_attention.attention_interface import (
    EagerCall,
    count_rows_within_memory,
    emit_map_rows_without_output,
    find_unpatched_eager_attention,
)
from attncli.capture.softmax_attention.attention_site_names import SiteNamer
from attncli.capture.softmax_attention.differential_attention import is_differential_attention
from attncli.errors import InputError, NonFiniteNumbers, UsageError
from attncli.forward_argument_types import Args, Inputs, Kwargs
from attncli.metrics.attention import ATTENTION, is_metric_of_map_alone
from attncli.metrics.attention._metric_accumulator import (
    MetricTotals,
    Values,
    split_metrics_by_batch_item,
)
from attncli.models.loading.in_memory.eval_mode import switch_to_eval_mode_temporarily
from attncli.models.loading.in_memory.unwrap_models import UnwrappedModel
from attncli.models.loading.isolate_global_state import take_measurement_lock
from attncli.models.model_classes import find_forward_signature
from attncli.tolerances import STEP_CAPTURE
from attncli.training.packed_batches import (
    TextSpan,
    are_texts_separated_by_mask,
    find_unpadded_spans,
    slice_attention_call,
    split_packed_batch_rows,
)
from attncli.training.probe_text_runs import ProbeRuns

Due = Callable[[], bool]
"""Whether the current step is to be observed."""

ACROSS = (
    "position ids begin anew within rows, and the mask lets the texts of one row see each other: a row is taken for one "
    "text."
)


class BatchCapture:
    """Waits for the batches of the steps to observe."""

    how = ""
    """How maps are captured, for the report, once known."""

    def __init__(self, runs: ProbeRuns, due: Due) -> None:
        self.runs, self.due = runs, due
        self.results: list[PassResult] = []
        self.failure: Exception | None = None
        model = runs.unwrapped.step_module
        self.signature = find_forward_signature(runs.unwrapped.model)
        self.handles = install_forward_hooks(
            [(model, self.begin_step_capture)],
            [(model, self.end_step_capture)],
            with_kwargs=True,
            always=True,
        )

    def take_batch_results(self) -> list[PassResult]:
        """Results of the batches since the last call, one for each text in them."""
        found, self.results = self.results, []
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return found

    def remove_hooks(self) -> None:
        for handle in self.handles:
            handle.remove()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def begin_step_capture(self, module: nn.Module, args: Args, kwargs: Kwargs) -> None:
        """Begin a step's forward pass; those of an evaluation are not observed."""
        if not (module.training and torch.is_grad_enabled() and self.due()):
            return
        self.postpone_errors_to_step_end(
            lambda: self.begin_batch_capture(self.bind_arguments_by_name(args, kwargs))
        )

    def bind_arguments_by_name(self, args: Args, kwargs: Kwargs) -> Inputs:
        bound = self.signature.bind_partial(*args, **kwargs).arguments
        return {**bound, **bound.get("kwargs", {})}

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def end_step_capture(self, *_: object) -> None:
        self.postpone_errors_to_step_end(self.end_batch_capture)

    def postpone_errors_to_step_end(self, work: Callable[[], None]) -> None:
        """Run `work` and defer its errors to the end of the step."""
        if self.failure is not None and work != self.end_batch_capture:
            return
        try:
            work()
        except Exception as error:
            self.failure = error

    def begin_batch_capture(self, inputs: Inputs) -> None:
        raise NotImplementedError

    def end_batch_capture(self) -> None:
        """End the forward pass, whether it has completed or not."""


class StepCapture(BatchCapture):
    """Captures maps in addition to the model's own attention."""

    def __init__(self, runs: ProbeRuns, due: Due) -> None:
        super().__init__(runs, due)
        self.around = ExitStack()
        self.running = False

    def begin_batch_capture(self, inputs: Inputs) -> None:
        self.sites = SiteNamer(self.runs.subject.body)
        self.rows = find_unpadded_spans(inputs)
        self.borders = split_packed_batch_rows(inputs, self.rows)
        self.groups: dict[tuple[int, int], SamePositionTexts] | None = None
        self.one_pass = OnePass(self.runs.metrics.heads, None)
        self.around = ExitStack()
        self.running = True
        self.around.enter_context(self.sites.count_list_element_forwards())
        self.around.enter_context(
            observe_attention(self.runs.unwrapped.model, self.observe_attention_call)
        )

    def end_batch_capture(self) -> None:
        self.around.close()
        if not self.running:
            return
        self.running = False
        with torch.no_grad():
            for group in (self.groups or {}).values():
                group.finish_attention_statistics()
        pieces = [
            found
            for group in (self.groups or {}).values()
            for found in group.collect_results_of_texts()
        ]
        self.results += [seen for _, seen in sorted(pieces, key=lambda each: each[0])]

    def observe_attention_call(self, call: EagerCall) -> None:
        self.postpone_errors_to_step_end(lambda: self.measure_texts_of_attention_call(call))

    def measure_texts_of_attention_call(self, call: EagerCall) -> None:
        """One attention of the batch, each text in it by itself."""
        site = self.sites.name_attention_site(call.module)
        if self.groups is None:
            packed = self.borders != self.rows and are_texts_separated_by_mask(call, self.borders)
            self.how = self.how if packed or self.borders == self.rows else ACROSS
            self.groups = group_texts_by_position(self.runs, self.borders if packed else self.rows)
        for (start, stop), group in self.groups.items():
            own = slice_attention_call(call, [piece.item for piece in group.pieces], start, stop)
            eager, observe = (
                find_unpatched_eager_attention(call.module),
                group.make_map_row_observer(site),
            )
            rows = count_rows_within_memory(STRIP_MEMORY, own.map_bytes_per_row)
            if (
                self.one_pass.attend_in_one_pass_if_possible(
                    eager, own.copy_with_few_value_features(), rows, observe
                )
                is None
            ):
                emit_map_rows_without_output(eager, own, rows, observe)


class SamePositionTexts(HeadObserver):
    """Texts of one batch at the same positions of their rows, measured together."""

    def __init__(self, runs: ProbeRuns, pieces: list[TextSpan]) -> None:
        super().__init__(
            PassRequest(runs.metrics.heads), runs.null, "the batch", ignore_progress_share
        )
        self.pieces = pieces
        self.each = [PassResult() for _ in pieces]

    def make_map_row_observer(self, site: AttentionSite) -> Callable[[Strip], bool]:
        def check_and_observe_map_rows(strip: Strip) -> bool:
            refuse_nan_attention(site, strip)
            return self.observe_map_rows(site, strip)

        return check_and_observe_map_rows

    def collect_values_of_attention(self, site: AttentionSite, totals: MetricTotals) -> Values:
        for seen, values in zip(
            self.each,
            split_metrics_by_batch_item(totals.compute_metric_values_per_item()),
            strict=True,
        ):
            seen.heads[site] = values
        return totals.compute_metric_values()

    def collect_results_of_texts(self) -> list[tuple[TextSpan, PassResult]]:
        """Each text with its own numbers; shared values are shared."""
        for seen in self.each:
            seen.nulls, seen.short = self.result.nulls, self.result.short
            seen.tokens = self.result.tokens
        return list(zip(self.pieces, self.each, strict=True))


def group_texts_by_position(
    runs: ProbeRuns, pieces: list[TextSpan]
) -> dict[tuple[int, int], SamePositionTexts]:
    """Group texts by their positions; a text of one token is skipped."""
    places: dict[tuple[int, int], list[TextSpan]] = {}
    for piece in pieces:
        if piece.stop - piece.start > 1:
            places.setdefault((piece.start, piece.stop), []).append(piece)
    return {place: SamePositionTexts(runs, members) for place, members in places.items()}


def refuse_nan_attention(site: AttentionSite, strip: Strip) -> None:
    if bool(strip.row_sums.isnan().any()):
        raise NonFiniteNumbers(
            f"layer {site.layer} ({site.name}): the attention of the batch has NaN; the weights or the states before it are "
            "not finite."
        )


class RerunCapture(BatchCapture):
    """Runs every text of the batch once more, uncompiled, before the step's own pass."""

    def __init__(self, runs: ProbeRuns, due: Due, why: str) -> None:
        super().__init__(runs, due)
        self.how = f"{why}: each measured batch is run once more next to the step."

    def begin_batch_capture(self, inputs: Inputs) -> None:
        pieces = split_packed_batch_rows(inputs, find_unpadded_spans(inputs))
        with take_measurement_lock(), switch_to_eval_mode_temporarily(self.runs.unwrapped.model):
            for piece in pieces:
                if piece.stop - piece.start > 1:
                    self.results.append(
                        self.runs.run_probe_text(slice_text_of_batch(inputs, piece), "the batch")
                    )


def slice_text_of_batch(inputs: Inputs, piece: TextSpan) -> dict[str, Tensor]:
    """One text of a batch as a batch of one; arguments other than token inputs, such as labels, are
    left out."""
    names = ("input_ids", "inputs_embeds", "token_type_ids", "position_ids")
    found = {}
    for name in names:
        value = inputs.get(name)
        if isinstance(value, Tensor) and value.dim() >= 2:
            item = piece.item if len(value) > 1 else 0
            found[name] = value[item : item + 1, piece.start : piece.stop].detach()
    return found


def require_batch_measurement_support(trained: UnwrappedModel) -> None:
    """Refuse models whose batches are not supported."""
    model = trained.transformers_model
    if model is None:
        raise UsageError(
            f"`measure='batch'` is for models of transformers, and {type(trained.model).__name__} is none: leave it out, and "
            "give `probe`."
        )
    if model.config.is_encoder_decoder or model.main_input_name != "input_ids":
        raise UsageError(
            f"measure='batch' is for models of one stack that read tokens: look at {type(trained.model).__name__} with a "
            "probe."
        )


def build_batch_capture(runs: ProbeRuns, due: Due) -> BatchCapture:
    """Capture during the step where attention runs on the attention interface; else before it, with
    a note."""
    why = explain_why_step_is_not_captured(runs)
    if why:
        return RerunCapture(runs, due, why)
    found = StepCapture(runs, due)
    try:
        verify_step_capture(runs, found)
    except BaseException:
        found.remove_hooks()
        raise
    return found


def explain_why_step_is_not_captured(runs: ProbeRuns) -> str:
    """Why maps cannot be captured during the step."""
    model = runs.unwrapped.model
    if runs.unwrapped.compiled:
        return "the model is compiled, so that its steps cannot be watched as they run"
    if runs.subject.proof.whole_maps or any(map(is_differential_attention, model.modules())):
        return f"{type(model).__name__} computes its attention by itself, so that it cannot be watched as it runs"
    others = sorted(list_attention_implementations(model) - {SDPA, EAGER})
    if others:
        return f"maps of {others[0]} attention cannot be seen as it runs"
    return ""


def verify_step_capture(runs: ProbeRuns, batch: StepCapture) -> None:
    """Verify that capture during a step agrees with the verified capture, on the first text."""
    text = runs.texts[0].kwargs
    with take_measurement_lock(), switch_to_eval_mode_temporarily(runs.unwrapped.model):
        captured = runs.run_probe_text(text, "the proof")
        batch.begin_batch_capture(text)
        try:
            runs.subject.body(**text)
        finally:
            batch.end_batch_capture()
    seen = batch.take_batch_results()
    for site, values in captured.heads.items():
        for metric, value in values.items():
            other = seen[0].heads.get(site, {}).get(metric) if seen else None
            if isinstance(value, Tensor) and not (
                isinstance(other, Tensor)
                and torch.allclose(
                    value,
                    other,
                    rtol=STEP_CAPTURE.tolerance_for_dtype(),
                    atol=STEP_CAPTURE.tolerance_for_dtype(),
                )
            ):
                raise InputError(
                    f"{site.name}: {metric} of a step is not what the capture sees: its maps cannot be vouched for, look at the "
                    "model with a probe."
                )


def refuse_metrics_that_need_more_than_maps(metrics: MetricSelection) -> None:
    """Refuse metrics of states, roles and head outputs, which the maps of a step cannot give."""
    others = [
        *metrics.states,
        *(
            n
            for n in metrics.heads
            if not is_metric_of_map_alone(n) or "repeats" in ATTENTION.declaration_of_entry(n).needs
        ),
    ]
    if others:
        raise UsageError(
            f"measure='batch' sees attention maps alone, and {others[0]} is not made of them: leave it out, or look with "
            "a probe."
        )
