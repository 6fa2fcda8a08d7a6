"""What a small image shows of a model is what its own size shows, and costs next to nothing."""

from collections import Counter
from typing import Any

import pytest
import torch

from attncli.api.opened_models import collapse_study
from attncli.models.loading.body import body_of
from attncli.models.loading.load import LoadOptions, load
from attncli.models.random.dummy_inputs import example_inputs
from attncli.models.random.short_inputs import short_inputs
from attncli.models.sources import parse
from attncli.networks.variants import by_names
from attncli.options.model_options import InputOptions, ModelOptions
from attncli.studies.model_runs import own_precision
from attncli.surgery import examine
from attncli.watching import prove
from attncli.watching.traits import traits_of

torch.set_num_threads(1)

SIZES = "layers=2&width=32&heads=4"
TAKE_SMALL_IMAGES = [
    "vit", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit", "clip_vision_model", "ijepa",
]  # fmt: skip


def body(kind: str) -> Any:
    return body_of(load(f"random:{kind}?{SIZES}", LoadOptions(dtype="float64")).model)


@pytest.mark.parametrize("kind", TAKE_SMALL_IMAGES)
def test_a_small_image_shows_what_one_of_the_models_own_size_shows(kind: str) -> None:
    model = body(kind)
    with own_precision(model):
        small, usual = short_inputs(model, 12), example_inputs(model, 12)
        assert small["pixel_values"].numel() < usual["pixel_values"].numel() / 3
        shown = []
        for inputs in (small, usual):
            proof, anatomy = prove(model, inputs), examine(model, inputs)
            traits = traits_of(model, anatomy.stacks, inputs, proof)
            calls = [(s.name, c.name, c.layer) for s in anatomy.stacks for c in s.calls]
            shown.append((calls, anatomy.paths, anatomy.notes, proof.sites, proof.causal, traits))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("kind", ["swin?tiny", "audio-spectrogram-transformer?tiny", "bert?tiny"])
def test_other_models_are_shown_their_own_size(kind: str) -> None:
    model = body_of(load(f"random:{kind}", LoadOptions(dtype="float64")).model)
    with own_precision(model):
        short, usual = short_inputs(model, 12), example_inputs(model, 12)
    assert {name: value.shape for name, value in short.items()} == {
        name: value.shape for name, value in usual.items()
    }


@pytest.mark.parametrize(("how", "passes"), [("auto", 4), ("float64", 8)])
def test_four_variants_of_an_image_model_cost_no_proofs_of_its_size(
    how: str, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass for each variant, and two where rounding is measured, of the 1,370 tokens that a published DINOv2 has."""
    from transformers.models.dinov2.modeling_dinov2 import Dinov2Layer

    seen: Counter[int] = Counter()
    usual = Dinov2Layer.forward

    def counted(layer: Any, hidden_states: Any, *more: Any, **named: Any) -> Any:
        seen[hidden_states.shape[1]] += 1
        return usual(layer, hidden_states, *more, **named)

    monkeypatch.setattr(Dinov2Layer, "forward", counted)
    source = f"random:dinov2?{SIZES}&image_size=518"
    asked = (by_names(["paper"]), ModelOptions(), InputOptions(), None, 0, how, False, False)
    report = collapse_study(parse(source), *asked)(metrics=["log10_residual"])
    assert len({row.variant for row in report.rows}) == 4
    assert max(seen) == 1370
    begun = 1  # a forward that ends in the first layer has counted the positions
    assert seen[1370] == passes * 2 + begun  # layers
