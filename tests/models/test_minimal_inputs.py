"""What a small image shows of a model is what its own size shows, and costs next to nothing."""

import importlib
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from transformers.models.audio_spectrogram_transformer.modeling_audio_spectrogram_transformer import (
    ASTLayer,
)

from attncli.ablation import recognise_block_anatomy
from attncli.capture import verify_capture
from attncli.capture.probe_causality_and_positions import detect_causality_and_positions
from attncli.commands.rank_collapse.run import prepare_model_collapse_study
from attncli.errors import InputError
from attncli.model_and_file_sources import parse_source
from attncli.models.loading.load_model import load_model
from attncli.models.loading.load_options import LoadOptions
from attncli.models.loading.loaded_model import remove_model_head
from attncli.models.precision import run_in_model_precision
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.make_short_inputs import (
    find_truncation_for_verification,
    make_short_inputs,
)
from attncli.networks.ablation_variants import parse_ablation_variants
from attncli.options.model_and_input import InputOptions, ModelOptions
from attncli.records import Report
from attncli.tensor_subclasses.residual_split.split_tensor import RULES

torch.set_num_threads(1)

SIZES = "layers=2&width=32&heads=4"
TAKE_SMALL_IMAGES = [
    "vit", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit", "clip_vision_model", "ijepa",
    "beit", "data2vec-vision",
]  # fmt: skip


def body(kind: str) -> Any:
    return remove_model_head(
        load_model(f"random:{kind}?{SIZES}", LoadOptions(dtype="float64")).model
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", TAKE_SMALL_IMAGES)
def test_a_small_image_shows_what_one_of_the_models_own_size_shows(kind: str) -> None:
    model = body(kind)
    with run_in_model_precision(model):
        small, usual = make_short_inputs(model, 12), make_example_inputs(model, 12)
        assert small["pixel_values"].numel() < usual["pixel_values"].numel() / 3
        shown = []
        for inputs in (small, usual):
            proof, anatomy = verify_capture(model, inputs), recognise_block_anatomy(model, inputs)
            traits = detect_causality_and_positions(model, anatomy.stacks, inputs, proof)
            calls = [(s.name, c.name, c.layer) for s in anatomy.stacks for c in s.calls]
            shown.append((calls, anatomy.paths, anatomy.notes, proof.sites, proof.causal, traits))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("kind", ["swin?tiny", "audio-spectrogram-transformer?tiny", "bert?tiny"])
def test_other_models_are_shown_their_own_size(kind: str) -> None:
    model = remove_model_head(load_model(f"random:{kind}", LoadOptions(dtype="float64")).model)
    with run_in_model_precision(model):
        short, usual = make_short_inputs(model, 12), make_example_inputs(model, 12)
    assert {name: value.shape for name, value in short.items()} == {
        name: value.shape for name, value in usual.items()
    }


def collapse(source: str, how: str = "auto", random_tokens: int | None = None) -> Report:
    """The four published variants."""
    inputs = InputOptions(random_tokens=random_tokens)
    asked = (parse_ablation_variants(["paper"]), ModelOptions(), inputs, None, 0, how, False, False)
    report = prepare_model_collapse_study(parse_source(source), *asked)(metrics=["log10_residual"])
    assert len({row.variant for row in report.rows}) == 4
    return report


def counting(monkeypatch: pytest.MonkeyPatch, block: str) -> Counter[int]:
    """How often blocks of a class are run, by their tokens."""
    module, _, name = block.partition(".")
    found = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    seen: Counter[int] = Counter()
    usual = getattr(found, name).forward

    def counted(layer: Any, hidden_states: Any, *more: Any, **named: Any) -> Any:
        seen[hidden_states.shape[1]] += 1
        return usual(layer, hidden_states, *more, **named)

    monkeypatch.setattr(getattr(found, name), "forward", counted)
    return seen


BEGUN = 1
"""Blocks of a forward that ends in the first one: it has counted the positions."""

FIXED = "audio-spectrogram-transformer?layers=2&width=32&heads=4&max_length=128"
"""Its positions are learned, and it fits them to no other input: 146 tokens."""

ONE_SIZE = {
    FIXED: ("audio_spectrogram_transformer.ASTLayer", 146, 5),
    f"whisper?{SIZES}&max_source_positions=120": ("whisper.WhisperEncoderLayer", 120, 5),
    f"wav2vec2?{SIZES}": ("wav2vec2.Wav2Vec2EncoderLayer", 129, 4),
    f"vit?{SIZES}": ("vit.ViTLayer", 197, 4),
    f"beit?{SIZES}": ("beit.BeitLayer", 197, 4),
    "vivit?layers=2&width=48&heads=4&image_size=128&num_frames=8": ("vivit.VivitLayer", 257, 5),
    f"dinov2?{SIZES}&image_size=518": ("dinov2.Dinov2Layer", 1370, 4),
}  # fmt: skip
"""Source: the class of its blocks, the tokens of its images or sounds, and passes of so many tokens: one for each variant,
and one that finds the blocks of those that take no smaller input."""


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (not name.startswith("audio")))
        for name in ONE_SIZE
    ],
)
def test_four_variants_of_an_image_or_a_sound_cost_few_passes(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, tokens, passes = ONE_SIZE[source]
    seen = counting(monkeypatch, block)
    report = collapse(f"random:{source}")
    assert set(report.source["arithmetic"].values()) == {"exact"}
    assert max(seen) == tokens
    assert seen[tokens] == passes * 2 + BEGUN  # layers
    shorter = sum(count * length for length, count in seen.items()) - seen[tokens] * tokens
    assert passes + shorter / (2 * tokens) <= 7


@pytest.mark.slow
def test_where_rounding_is_measured_there_are_two_for_each_variant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = counting(monkeypatch, ONE_SIZE[FIXED][0])
    collapse(f"random:{FIXED}", "float64")
    assert seen[146] == (4 * 2 + 1) * 2 + BEGUN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "block"),
    [(f"bert?{SIZES}", "bert.BertLayer"), (f"gpt2?{SIZES}", "gpt2.GPT2Block")],
)
def test_texts_are_proved_on_a_short_one(
    source: str, block: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = counting(monkeypatch, block)
    collapse(f"random:{source}", random_tokens=40)
    assert seen == {
        40: 4 * 2,
        12: 8 * 2,
    }  # the probe, plain, captured and tracked, two without additions, and three for the arithmetic


def test_a_cut_stream_shows_what_the_whole_one_shows() -> None:
    model = remove_model_head(load_model(f"random:{FIXED}", LoadOptions(dtype="float64")).model)
    with run_in_model_precision(model):
        inputs = make_example_inputs(model, 12)
        cut = find_truncation_for_verification(model, inputs, 12)
        assert len(cut.blocks) == 1
        shown = []
        for streams in (cut.truncate_residual_streams(), nullcontext()):
            with streams:
                proof, anatomy = (
                    verify_capture(model, inputs),
                    recognise_block_anatomy(model, inputs),
                )
                traits = detect_causality_and_positions(model, anatomy.stacks, inputs, proof)
            calls = [(s.name, c.name, c.layer) for s in anatomy.stacks for c in s.calls]
            shown.append((calls, anatomy.paths, anatomy.notes, proof.sites, proof.causal, traits))
            sizes = {shape.queries for shape in proof.shapes.values()}
            assert sizes == {12 if len(shown) == 1 else 146}
    assert shown[0] == shown[1]


def break_blocks(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, Any], Any]) -> None:
    """AST's blocks give change(their output, their input)."""
    usual = ASTLayer.forward
    monkeypatch.setattr(
        ASTLayer, "forward", lambda layer, x, *a, **k: change(usual(layer, x, *a, **k), x)
    )


Change = Callable[[Any, Any], Any]
BROKEN: dict[str, tuple[Change, str]] = {
    "past the additions": (lambda y, x: y * (1 + x.mean()), "cannot be ablated|beside the recognised"),
    "another addition": (lambda y, x: y + 0.1 * torch.tanh(x), "cannot be ablated"),
    "another path where it is long": (
        lambda y, x: torch.nn.functional.layer_norm(y, y.shape[-1:]) if y.shape[1] > 100 else y, "takes another path"
    ),
    "another way where it is long": (
        lambda y, x: y if y.shape[1] < 100 else x + y.mean(1, keepdim=True), "takes another path"
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_not_understood_is_refused_behind_a_cut_too(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, words = BROKEN[how]
    break_blocks(monkeypatch, change)
    with pytest.raises(InputError, match=words):
        collapse(f"random:{FIXED}")


@pytest.mark.slow
def test_a_wrong_rule_is_seen_behind_a_cut_too(monkeypatch: pytest.MonkeyPatch) -> None:
    right = RULES[torch.nn.functional.gelu]
    monkeypatch.setitem(
        RULES, torch.nn.functional.gelu, lambda x, *a, **k: right(right(x, *a, **k))
    )
    report = collapse(f"random:{FIXED}")
    assert "transformer" in [
        n for n, how in report.source["arithmetic"].items() if how == "float64"
    ]
    assert any("its code is not understood" in warning for warning in report.warnings)


@pytest.mark.parametrize("kind", ["swin?tiny", "clap_audio_model?tiny"])
def test_what_knows_its_number_of_tokens_is_not_cut(kind: str) -> None:
    model = remove_model_head(load_model(f"random:{kind}", LoadOptions(dtype="float64")).model)
    with run_in_model_precision(model):
        assert not find_truncation_for_verification(
            model, make_example_inputs(model, 12), 12
        ).blocks
