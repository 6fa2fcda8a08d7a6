"""How long an input is: as many positions as the blocks really work on, whatever the model reads."""

import pytest
import torch

from attncli.models.inputs.texts import WantedInput, inputs_of
from attncli.models.loading.load import LoadOptions, load
from attncli.studies.model_runs import own_precision
from attncli.watching.blocks import find_stacks, watching_states

SOURCES = [
    "random:vit?tiny", "random:dinov2?tiny", "random:swin?tiny", "random:clip_vision_model?tiny", "random:beit?tiny",
    "random:whisper?tiny", "random:wav2vec2?tiny", "random:hubert?tiny", "random:audio-spectrogram-transformer?tiny",
    "random:videomae?tiny", "random:bert?tiny", "random:t5?tiny", "random:time_series_transformer?tiny",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [None, "float64"])
@pytest.mark.parametrize("source", SOURCES)
def test_an_input_has_as_many_tokens_as_its_first_block_is_given(
    source: str, dtype: str | None
) -> None:
    checkpoint = load(source, LoadOptions(dtype=dtype))
    body = checkpoint.body
    [given] = inputs_of(checkpoint, WantedInput())
    sizes: list[int] = []
    stacks = find_stacks(body, given.kwargs)
    with (
        torch.no_grad(),
        own_precision(body),
        watching_states(
            body, stacks, lambda stack, index, state: sizes.append(int(state.shape[1]))
        ),
    ):
        body(**given.kwargs)
    assert given.tokens == sizes[0]


def test_images_of_another_size_have_another_number_of_positions() -> None:
    """(side / patch)² and a class token."""
    [large] = inputs_of(load("random:dinov2?tiny"), WantedInput())
    config = load("random:dinov2?tiny").body.config
    assert large.tokens == (config.image_size // config.patch_size) ** 2 + 1
