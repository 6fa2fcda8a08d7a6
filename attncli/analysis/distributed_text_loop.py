"""The loop over texts that all studies of models have: divided over the processes, if there are several."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from torch import nn

from attncli.capture.model_errors import translate_model_errors
from attncli.models.inputs.model_input import ModelInput
from attncli.processes.divide_work_over_ranks import (
    divide_work_between_ranks,
    list_item_indices_of_rank,
)
from attncli.processes.resume_cache import load_or_compute_result
from attncli.progress import Progress, make_progress_counter
from attncli.records import Facts

R = TypeVar("R")


def apply_to_each_text(
    body: nn.Module,
    texts: Sequence[ModelInput],
    work: Callable[[int, ModelInput], R],
    identity: Facts,
    what: str,
    made_of: Sequence[type] | None,
) -> list[R]:
    """Map `work` over all texts and their indices, in order; `what` names this loop within the
    study.

    If it fails on a text on which the body fails by itself, the error says so.

    `made_of`: types of this project that a result consists of, so that it can be saved until the
    report is complete; None where the work has other effects than its result.
    """

    def apply_with_named_errors(item: tuple[int, ModelInput]) -> R:
        with translate_model_errors(body, {item[1].name: item[1].kwargs}):
            return work(*item)

    return divide_work_between_ranks(
        list(enumerate(texts)),
        apply_with_named_errors,
        partial(
            cache_key_of_text_result,
            f"{what} {identity.get('weight_sha256')} {identity.get('dtype')}",
        ),
        None if made_of is None else partial(load_or_compute_result, made_of),
    )


def wrap_with_text_progress(
    work: Callable[[int, ModelInput], R], texts: Sequence[ModelInput], progress: Progress
) -> Callable[[int, ModelInput], R]:
    """Wrap `work` to report progress after each text of this process."""
    count_text = make_progress_counter(progress, len(list_item_indices_of_rank(texts)), "texts")

    def apply_and_count_text(place: int, text: ModelInput) -> R:
        found = work(place, text)
        count_text()
        return found

    return apply_and_count_text


def cache_key_of_text_result(model: str, item: tuple[int, ModelInput]) -> str:
    """The key of a saved result: model, text index, and the model's inputs."""
    place, text = item
    return f"{model} {place} {text.name} {text.sha256}"
