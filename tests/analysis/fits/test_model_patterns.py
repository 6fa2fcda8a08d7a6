"""Heads of models as patterns: `attn approximate --pattern MODEL:LAYER.HEAD:top=K`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import attn
from family_models import HEADS, saved
from scipy.sparse import csr_array

from attncli.analysis.fits.model_patterns import capture_model_patterns
from attncli.errors import UsageError
from attncli.models.inputs.input_options import RequestedInput
from attncli.models.inputs.requested_inputs import make_model_inputs
from attncli.models.loading.load_model import load_model
from attncli.patterns._pattern_text_grammar import ModelHead, parse_attention_head_of_model

TOKENS = 24


def map_of(folder: Path, layer: int, head: int) -> np.ndarray:
    """The whole map, by the model's own eager attention."""
    checkpoint = load_model(str(folder))
    (text,) = make_model_inputs(checkpoint, RequestedInput(random_tokens=TOKENS))
    checkpoint.model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = checkpoint.model_without_head(**text.kwargs, output_attentions=True).attentions
    return maps[layer][0, head].double().numpy()


def patterns_of(folder: Path, *texts: str, rows: int) -> list[np.ndarray]:
    """From strips of so many rows."""
    checkpoint = load_model(str(folder))
    (text,) = make_model_inputs(checkpoint, RequestedInput(random_tokens=TOKENS))
    heads = [head for head in map(parse_attention_head_of_model, texts) if head is not None]
    found = capture_model_patterns(checkpoint, text, heads, strip_memory=rows * HEADS * TOKENS * 8)
    assert list(found) == list(texts)
    assert all(isinstance(each, csr_array) for each in found.values())
    return [each.toarray() for each in found.values()]


@pytest.mark.parametrize("kind", ["bert", "llama", "gptj"])
@pytest.mark.parametrize("rows", [1, 7, TOKENS])
def test_the_largest_weights_of_the_models_own_map(kind: str, rows: int, tmp_path: Path) -> None:
    """Whatever the strips; causal ones leave keys out, and sliding ones start at others than the first."""
    longer = "n_positions" if kind == "gptj" else "max_position_embeddings"
    saved(kind, tmp_path, **{longer: TOKENS})
    top, above = patterns_of(
        tmp_path, f"{tmp_path}:1.2:top=3", f"{tmp_path}:1.2:above=0.1", rows=rows
    )
    whole = map_of(tmp_path, 1, 2)
    limits = np.sort(whole, axis=1)[:, -3:].min(axis=1, keepdims=True)
    np.testing.assert_allclose(top, np.where(whole >= limits, whole, 0.0), atol=1e-5)
    assert ((top > 0).sum(axis=1) <= 3).all()
    np.testing.assert_allclose(above, np.where(whole > 0.1, whole, 0.0), atol=1e-5)


def test_sliding_windows_keep_their_place(tmp_path: Path) -> None:
    """Strips there begin at a later key."""
    saved("mistral", tmp_path, sliding_window=4)
    (found,) = patterns_of(tmp_path, f"{tmp_path}:0.1:top=2", rows=5)
    whole = map_of(tmp_path, 0, 1)
    rows = np.arange(TOKENS)
    assert (np.sort(whole.argsort(axis=1)[:, -2:])[4:] == np.sort(found.argsort(axis=1)[:, -2:])[4:]).all()  # fmt: skip
    assert not found[rows[:, None] - rows > 3].any()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("./m:0.3:top=4", ("./m", 0, 3, 4, None)),
        ("org/name@main:10.11:above=0.05", ("org/name@main", 10, 11, None, 0.05)),
        ("random:gpt2?layers=2:1.0:top=1", ("random:gpt2?layers=2", 1, 0, 1, None)),
        ("C:/m:0.3:above=1e-3", ("C:/m", 0, 3, None, 1e-3)),
    ],
)
def test_words_for_a_head(text: str, meant: tuple[Any, ...]) -> None:
    assert parse_attention_head_of_model(text) == ModelHead(text, *meant)


@pytest.mark.parametrize(
    "text",
    [
        "window:3",
        "random:k=4,weights=dirichlet",
        "window:3.5",
        "global:2+window:3",
        "previous",
        "maps.safetensors:0.3:top=4",
        "./dir/maps.safetensors:0.3",
    ],
)
def test_words_for_something_else(text: str) -> None:
    assert parse_attention_head_of_model(text) is None


@pytest.mark.parametrize("keep", ["", ":top=0", ":top=x", ":above=", ":above=much", ":4", ":"])
def test_what_is_kept_must_be_said(keep: str) -> None:
    with pytest.raises(UsageError, match=r"\./m:0\.3"):
        parse_attention_head_of_model(f"./m:0.3{keep}")


@pytest.mark.slow
def test_from_the_command_line(tmp_path: Path) -> None:
    """One forward pass for several heads; the report says which model and which input."""
    saved("gpt2", tmp_path, torch.float32)
    heads = [f"{tmp_path}:0.1:top=2", f"{tmp_path}:1.0:top=2"]
    chosen = [part for head in heads for part in ("--pattern", head)]
    options = ("--causal", "--token-ids", "1,2,3,4,5,6,7,8", "--seeds", "1", "-q", "--format", "json")  # fmt: skip
    done = attn("approximate", *chosen, "--pattern", "previous", "--length", "8", *options)
    assert (done.code, done.err) == (0, "")
    report = json.loads(done.out)
    assert report["input"]["patterns"] == [*heads, "previous"]
    (identity,) = report["input"]["models"].values()
    assert identity["input"] == {"name": "token_ids", "tokens": 8}
    assert len(identity["weight_sha256"]) == 64
    met = [row["value"] for row in report["rows"] if row["metric"] == "meets"]
    assert met == [1, 1, 1]
    assert attn("approximate", *chosen, "--pattern", "previous", "--length", "8", *options).out == done.out  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("MODEL:2.0:top=2", "--random-tokens", "8"), 2, "no attention in layer 2"),
        (("MODEL:0.4:top=2", "--random-tokens", "8"), 2, "heads 0 … 3"),
        (("MODEL:0.0:above=0.99", "--random-tokens", "8"), 3, "must attend to a key"),
        (("MODEL:0.0:top=2", "--random-tokens", "8", "--length", "9"), 2, "has 8 tokens"),
        (("MODEL:0.0:top=2", "--random-tokens", "8", "--samples", "2"), 2, "so give one"),
        (("MODEL:0.0:top=2", "--sweep", "length=8:16"), 2, "as long as its text"),
        (("window:3", "--text", "so"), 2, "--text goes with a model: give --pattern"),
        (
            ("random:t5:0.0:top=2", "--random-tokens", "8"),
            3,
            "in decoder.block and in encoder.block",
        ),
        (("random:swin:0.0:top=2"), 3, "windows"),
        (("./nowhere:0.0:top=2", "--random-tokens", "8"), 3, "nowhere"),
    ],
)
def test_refusals(arguments: tuple[str, ...] | str, code: int, says: str, tmp_path: Path) -> None:
    saved("bert", tmp_path, torch.float32)
    words = [arguments] if isinstance(arguments, str) else list(arguments)
    done = attn("approximate", "--pattern", *(word.replace("MODEL", str(tmp_path)) for word in words))  # fmt: skip
    assert done.code == code
    assert says in done.err
    assert done.err.count("\n") == 1


def test_keys_ahead_are_refused_under_the_causal_mask(tmp_path: Path) -> None:
    saved("bert", tmp_path, torch.float32)
    done = attn("approximate", "--pattern", f"{tmp_path}:0.0:top=2", "--random-tokens", "8", "--causal")  # fmt: skip
    assert done.code == 3
    assert "which the causal mask hides" in done.err


@pytest.mark.parametrize("option", [("--plot",), ("-o", "fit.safetensors")])
def test_a_rotary_head_has_no_file_and_no_picture(
    option: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said before the fit, which would be in vain."""
    saved("llama", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("attncli.commands.head_capacity.run.find_inputs_for_patterns", lambda *_: pytest.fail("fitted"))  # fmt: skip
    done = attn("head-capacity", str(tmp_path), "--head", "0.0", "--pattern", "previous", *option)
    assert done.code == 2
    assert "rotary positions" in done.err


def test_options_of_a_models_files_are_refused_where_no_pattern_names_a_model() -> None:
    refused = attn("approximate", "--length", "8", "--allow-pickle", "--revision", "main")
    assert refused.code == 2
    assert (
        "--revision, --allow-pickle go with a model: give --pattern MODEL:LAYER.HEAD:top=4."
        in refused.err
    )
    assert "give --pattern MODEL:LAYER.HEAD:top=4" in refused.err
