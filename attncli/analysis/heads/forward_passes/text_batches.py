"""Texts of equal shapes in one forward pass, each measured separately, as if it were alone."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncli.analysis.heads.forward_passes.head_observer import (
    HeadObserver,
    PassRequest,
    PassResult,
    Tick,
)
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.load_and_verify_model import PreparedModel
from attncli.capture import AttentionSite, Strip
from attncli.capture.model_errors import FAILURES
from attncli.capture.model_structure.modules_outside_transformers import ForeignModule
from attncli.capture.reruns.seed_and_precision import move_to_float64_device
from attncli.capture.verify_captured_attention import find_floating_dtype_of_model
from attncli.errors import AttnError
from attncli.metrics.activations._activation_state import ActivationState
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention._metric_accumulator import (
    MetricTotals,
    Values,
    reduce_metric_over_batch,
    split_metrics_by_batch_item,
)
from attncli.models.inputs.model_input import ModelInput, Shapes, describe_input_shapes
from attncli.models.loading.memory_estimate import estimate_run_memory
from attncli.processes.divide_work_over_ranks import list_item_indices_of_rank
from attncli.tolerances import BATCHED_TEXT

BATCH_MEMORY = 2**27
"""Bytes for the states of a batch: larger ones save no more time."""
AHEAD = 256
"""Texts among which a batch is gathered, so that results of later texts stay few."""
FEWEST = 4
"""Texts of a first batch, one of which is measured by itself too."""


class BatchObserver(HeadObserver):
    """Observes a batch without padding: what all texts share, such as the visible keys, is measured
    once."""

    def __init__(
        self,
        request: PassRequest,
        null: UniformAttentionControl,
        where: str,
        texts: int,
        tick: Tick,
    ) -> None:
        super().__init__(request, null, where, lambda share: tick(share * texts))
        self.each = [PassResult() for _ in range(texts)]
        self.is_apart = True
        """Whether every attention layer keeps the texts separate, as one that folds windows into the
        batch does not, and all texts lack the same numbers."""

    def begin_attention_statistics(self, site: AttentionSite, strip: Strip) -> None:
        super().begin_attention_statistics(site, strip)
        self.is_apart = self.is_apart and len(strip.weights) == len(self.each)

    def collect_values_of_attention(self, site: AttentionSite, totals: MetricTotals) -> Values:
        found = totals.compute_metric_values_per_item()
        items = split_metrics_by_batch_item(found)
        several = len(items) == len(self.each)  # else no metric applies to it, for the same reasons
        self.is_apart &= totals.do_batch_items_lack_same_metrics(found) and not self.spans.gaps
        self.is_apart &= not self.empty and bool(self.weighed.all())
        for place, seen in enumerate(self.each):
            seen.heads[site] = items[place if several else 0]
        return {name: reduce_metric_over_batch(name, value) for name, value in found.items()}

    def observe_hidden_state(self, stack: str, index: int, state: Tensor) -> None:
        self.is_apart &= len(state) == len(self.each)
        for own, seen in zip(move_to_float64_device(state.detach()), self.each, strict=False):
            self.measure_and_store_state(seen, (stack, index), ActivationState(own))

    def results_by_text(self) -> list[PassResult]:
        """One result per text, with the shared values in each; empty where these are not apart."""
        if not self.is_apart:
            return []
        for seen in self.each:
            seen.nulls, seen.tokens, seen.paths = (
                self.result.nulls,
                self.result.tokens,
                self.result.paths,
            )
        return self.each


class TextBatches:
    """Measures texts in batches, as long as their numbers are those of each text alone."""

    def __init__(
        self,
        subject: PreparedModel,
        request: PassRequest,
        texts: Sequence[ModelInput],
        together: Callable[[Sequence[ModelInput]], list[PassResult]],
        alone: Callable[[ModelInput], PassResult],
    ) -> None:
        """`together`: an empty list where the texts are not apart; `alone`: the judge of a first batch."""
        self.texts, self.together, self.alone = texts, together, alone
        self.dtype = find_floating_dtype_of_model(subject.body)
        self.most = BATCH_MEMORY // estimate_run_memory(subject.body, 1, 0)
        """Tokens of a batch."""
        self.keys = {
            place: find_shapes_shared_by_batch(texts[place])
            for place in list_item_indices_of_rank(texts)
        }
        self.ahead: dict[int, PassResult] = {}
        """Results of texts whose turn has not come."""
        self.verified = 0
        """Texts of the largest batch of which one has been compared with itself alone."""
        self.goes_on = can_measure_texts_in_batches(subject, request)
        self.differs = False
        """Whether a text had other numbers in a batch than alone."""

    def take_batched_result(self, place: int) -> PassResult | None:
        """The result of one text, by a batch of it and later ones; None where it is to run alone."""
        places = (
            [] if place in self.ahead or not self.goes_on else self.find_texts_of_same_shapes(place)
        )
        if len(places) >= (2 if self.verified else FEWEST):
            self.ahead |= zip(places, self.measure_batch_of_texts(places), strict=False)
            self.goes_on = place in self.ahead
        return self.ahead.pop(place, None)

    def find_texts_of_same_shapes(self, place: int) -> list[int]:
        """This text and the next ones of the same shapes."""
        key = self.keys[place]
        window = (each for each in range(place, place + AHEAD) if each not in self.ahead)
        alike = [each for each in window if key and self.keys.get(each) == key]
        return alike[: self.most // max(1, self.texts[place].tokens)]

    def measure_batch_of_texts(self, places: Sequence[int]) -> list[PassResult]:
        """Their results; none where the batch fails, of which each text alone says why, or is not its texts."""
        texts = [self.texts[place] for place in places]
        try:
            found = self.together(texts)
            if found and len(texts) > 2 * self.verified:
                self.differs = not is_batched_result_equal_to_single(
                    found[-1], self.alone(texts[-1]), self.dtype
                )
                self.verified = len(texts)
        except (AttnError, *FAILURES, MemoryError):
            return []
        return [] if self.differs else found


def find_shapes_shared_by_batch(text: ModelInput) -> Shapes:
    """What texts of one batch have in common; empty where an input is not known to have an axis of texts."""
    tensors = [value for value in text.kwargs.values() if isinstance(value, Tensor)]
    by_text = all(value.ndim > 1 and len(value) == 1 for value in tensors)
    return describe_input_shapes(text.kwargs) if by_text else ()


def join_inputs_into_batch(texts: Sequence[ModelInput]) -> dict[str, Tensor]:
    """The inputs of texts of one key, as a batch."""
    return {
        name: torch.cat([text.kwargs[name] for text in texts])
        if isinstance(value, Tensor)
        else value
        for name, value in texts[0].kwargs.items()
    }


def can_measure_texts_in_batches(subject: PreparedModel, request: PassRequest) -> bool:
    """Whether a batch may be tried: linear layers are measured text by text, and where the batch of another origin's module
    is, is not known; iterations for singular values go on until they have settled for all texts.
    """
    alone = (
        subject.linear.layers or subject.replaces_modules or isinstance(subject.body, ForeignModule)
    )
    spectra = any(ATTENTION.declaration_of_entry(name).of == "spectrum" for name in request.heads)
    return not (alone or spectra or request.pairs)


def is_batched_result_equal_to_single(
    found: PassResult, alone: PassResult, dtype: torch.dtype
) -> bool:
    """Whether all numbers of a text are the same up to rounding."""
    own, other, allowed = (
        collect_values_of_pass_result(found),
        collect_values_of_pass_result(alone),
        BATCHED_TEXT.tolerance_for_dtype(dtype),
    )
    return own.keys() == other.keys() and all(
        are_measured_values_close(own[place], other[place], allowed) for place in own
    )


def collect_values_of_pass_result(
    seen: PassResult,
) -> dict[tuple[object, str], Tensor | float | str]:
    found: dict[tuple[object, str], Tensor | float | str] = {
        (site, name): value for site, own in seen.heads.items() for name, value in own.items()
    }
    return found | {
        (state, name): value for state, own in seen.states.items() for name, value in own.items()
    }


def are_measured_values_close(
    own: Tensor | float | str, other: Tensor | float | str, allowed: float
) -> bool:
    if isinstance(own, str) or isinstance(other, str):
        return isinstance(own, str) and own == other
    sides = (torch.as_tensor(own), torch.as_tensor(other))
    return bool(torch.isclose(*sides, rtol=allowed, atol=allowed, equal_nan=True).all())
