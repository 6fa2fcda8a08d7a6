"""Batches taken apart, by models of many types: two inputs put together come apart as they were, or are refused."""

import pytest
import torch
from torch import Tensor

from attncli.errors import UsageError
from attncli.models.inputs.split_batch import split_batch
from attncli.models.loading.loaded_model import remove_model_head
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import make_random_model

APART = ["bert", "glm", "t5", "vit", "clip", "whisper", "layoutlm", "wav2vec2", "perceiver"]
REFUSED = ["qwen2_vl_vision", "musicgen", "musicgen_decoder", "xclip_vision_model", "rag"]
"""Packed patches, codebooks, frames, documents: their first axis is none of texts."""


def two(kind: str) -> tuple[torch.nn.Module, dict[str, Tensor], dict[str, Tensor]]:
    with silence_libraries():
        body = remove_model_head(make_random_model(kind, {"tiny": ""}, 0, torch.float32).model)
    return body, make_example_inputs(body, 12, 0), make_example_inputs(body, 12, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", APART)
def test_they_come_apart_as_they_were(kind: str) -> None:
    body, one, other = two(kind)
    together = {name: torch.cat([one[name], other[name]]) if one[name].ndim else one[name] for name in one}  # fmt: skip
    for given, wanted in ((one, [one]), (together, [one, other])):
        found = list(split_batch(body, given))  # type: ignore[arg-type]
        assert len(found) == len(wanted)
        for ours, theirs in zip(found, wanted, strict=True):
            assert set(ours) == set(theirs)
            assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.slow
@pytest.mark.parametrize("kind", REFUSED)
def test_what_has_no_axis_of_texts_is_one_or_refused(kind: str) -> None:
    body, one, other = two(kind)
    assert len(list(split_batch(body, one))) == 1  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give a list with a batch of one for each text"):
        list(split_batch(body, {name: torch.cat([one[name], other[name]]) for name in one}))  # type: ignore[arg-type]
