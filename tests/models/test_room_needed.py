"""The estimate against measurements, and the refusal before the work."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from attncli.errors import LimitError
from attncli.models.loading.memory_estimate import (
    estimate_run_memory,
    find_max_head_count,
    require_memory_for_weights,
    require_memory_to_run,
)

MB = 1_000_000


def blank(config: Any) -> torch.nn.Module:
    with torch.device("meta"):
        return transformers.AutoModel.from_config(config)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def gpt2() -> torch.nn.Module:
    """124M parameters."""
    return blank(transformers.GPT2Config())


def test_the_estimate_is_above_what_was_measured_but_not_far(gpt2: torch.nn.Module) -> None:
    """Peak memory beyond the model of a plain forward in float32, in MB."""
    for tokens, measured in ((1024, 158), (2048, 301), (4096, 374)):
        assert 0.6 * measured * MB < estimate_run_memory(gpt2, tokens, 0) < 2 * measured * MB


def test_maps_that_are_made_at_once_grow_with_the_square(gpt2: torch.nn.Module) -> None:
    strips = estimate_run_memory(gpt2, 4096, 32 << 20)
    assert strips < 600 * MB
    assert (
        estimate_run_memory(gpt2, 4096, 32 << 20, heads_at_once=12) - strips == 3 * 12 * 4096**2 * 4
    )


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        (transformers.GPT2Config(), 12),
        (transformers.GLPNConfig(), 8),  # (1, 2, 5, 8)
        (transformers.CLIPConfig(), 12),  # 8 of text, 12 of images
        (transformers.CONFIG_MAPPING["dots3_note_text"](), 128),  # 128 or 64
    ],
)
def test_heads_are_counted_wherever_a_config_says_them(config: Any, heads: int) -> None:
    body = torch.nn.Module()
    body.config = config
    assert find_max_head_count(body) == heads


def test_what_cannot_fit_is_refused(gpt2: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.resource_limits.available_memory", lambda: 500 * MB)
    require_memory_to_run(gpt2, 1024, 32 << 20)
    with pytest.raises(LimitError, match="`tokens`"):
        require_memory_to_run(gpt2, 16384, 32 << 20)
    require_memory_for_weights(Path("m"), gpt2, torch.bfloat16, in_place=False)
    with pytest.raises(LimitError, match=r"m in float64 needs about 0\.93 GiB"):
        require_memory_for_weights(Path("m"), gpt2, torch.float64, in_place=False)
    require_memory_for_weights(Path("m"), gpt2, torch.float64, in_place=True)
