"""The loop over texts that all studies of models have: divided over the processes, if there are several."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from torch import nn

from attncli.analysis import Progress
from attncli.capture.model_errors import translate_model_errors
from attncli.models.inputs.texts import ModelInput
from attncli.processes.resume_cache import build_result_cache, make_without_cache
from attncli.processes.work_sharing import rank_share, share_work

R = TypeVar("R")


def map_texts(
    body: nn.Module,
    texts: Sequence[ModelInput],
    work: Callable[[int, ModelInput], R],
    identity: Mapping[str, Any],
    what: str,
    made_of: Sequence[type] | None,
) -> list[R]:
    """`work` of every text and its place, in order; `what` tells this loop from others of the same study.

    Where it fails on a text on which the body fails by itself, that is said.

    `made_of`: the types of this project that a result is made of, so that it can be kept until the report is there;
    None where a result is not all that the work leaves.
    """

    def told(item: tuple[int, ModelInput]) -> R:
        with translate_model_errors(body, {item[1].name: item[1].kwargs}):
            return work(*item)

    return share_work(
        list(enumerate(texts)),
        told,
        partial(text_key, f"{what} {identity.get('weight_sha256')} {identity.get('dtype')}"),
        make_without_cache if made_of is None else build_result_cache(*made_of),
    )


def count_progress(
    work: Callable[[int, ModelInput], R], texts: Sequence[ModelInput], progress: Progress
) -> Callable[[int, ModelInput], R]:
    """The same work, each text of this process told as it is done."""
    total, done = len(rank_share(texts)), 0

    def told(place: int, text: ModelInput) -> R:
        nonlocal done
        found = work(place, text)
        done += 1
        progress(done, total, "texts")
        return found

    return told


def text_key(model: str, item: tuple[int, ModelInput]) -> str:
    """The model, the text's place, and what the model is given."""
    place, text = item
    return f"{model} {place} {text.name} {text.sha256}"
