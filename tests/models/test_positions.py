"""How long an input is: as many positions as the blocks really work on, whatever the model reads."""

from types import SimpleNamespace
from typing import cast

import pytest
import torch
from torch import nn

from attncli.capture.input_token_counts import count_input_positions
from attncli.capture.model_structure.blocks import find_block_stacks, observe_block_states
from attncli.errors import InputError
from attncli.models.inputs.input_options import RequestedInput
from attncli.models.inputs.requested_inputs import make_model_inputs
from attncli.models.loading.load_model import load_model
from attncli.models.loading.load_options import LoadOptions
from attncli.models.precision import run_in_model_precision
from attncli.models.random.random_inputs.images import choose_image_side_for_queries
from attncli.models.random.random_inputs.input_sampler import InputSampler

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
    checkpoint = load_model(source, LoadOptions(dtype=dtype))
    body = checkpoint.model_without_head
    [given] = make_model_inputs(checkpoint, RequestedInput())
    sizes: list[int] = []
    stacks = find_block_stacks(body, given.kwargs)
    with (
        torch.no_grad(),
        run_in_model_precision(body),
        observe_block_states(
            body, stacks, lambda stack, index, state: sizes.append(int(state.shape[1]))
        ),
    ):
        body(**given.kwargs)
    assert given.tokens == sizes[0]


def test_images_of_another_size_have_another_number_of_positions() -> None:
    """(side / patch)² and a class token."""
    [large] = make_model_inputs(load_model("random:dinov2?tiny"), RequestedInput())
    config = load_model("random:dinov2?tiny").model_without_head.config
    assert large.tokens == (config.image_size // config.patch_size) ** 2 + 1


def test_a_model_whose_own_code_fails_is_named() -> None:
    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            return pixel_values.view(7, -1)

    with pytest.raises(InputError, match="Failing does not run with the sizes of its config"):
        count_input_positions(Failing(), {"pixel_values": torch.zeros(1, 3, 4, 4)})


@pytest.mark.parametrize(
    ("strides", "queries", "side"),
    [([8, 16, 32], 300, 128), ([8, 16, 32], 8, 64), (None, 300, 64), ([8, 16, 32], 337, 192)],
)
def test_an_image_of_any_size_has_places_for_all_queries(
    strides: list[int] | None, queries: int, side: int
) -> None:
    """128² pixels: 16² + 8² + 4² = 336 places."""
    config = SimpleNamespace(feat_strides=strides, num_queries=queries)
    assert choose_image_side_for_queries(cast(InputSampler, SimpleNamespace(config=config))) == side
