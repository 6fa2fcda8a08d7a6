"""The files that are broken: one good one of every kind that `attn` reads."""

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save
from small_checkpoints import saved

from attncli.cli.main import run_command_line
from attncli.networks.network_files import build_network_metadata, collect_network_tensors
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmn")
"""As many as the tiny models have embeddings."""
TEXT = "a b c d e f"


@dataclass(frozen=True)
class Material:
    """Content by what it is."""

    networks: tuple[bytes, ...]
    maps: tuple[bytes, ...]
    fits: tuple[bytes, ...]
    report: Any
    head_reports: tuple[Any, ...]
    """Of heads, with and without baselines beside them."""
    models: tuple[Path, ...]
    """Folders of tiny checkpoints with a tokenizer; the last one in shards."""


def material(folder: Path) -> Material:
    """Everything, made once in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    specs = (
        NetworkSpec(layers=2, tokens=3, width=4, heads=2),
        NetworkSpec(layers=2, tokens=4, width=4, heads=2, biases=True, positions="relative", mask="causal", norm="layer"),
        NetworkSpec(layers=1, tokens=3, width=4, heads=1, attention="gated", positions="rope", norm="rms", activation="gelu"),
        NetworkSpec(layers=1, tokens=3, width=4, heads=2, attention="sinkhorn", norm_position="post", norm="layer"),
    )  # fmt: skip
    networks = [GeneratedNetwork(spec, 0) for spec in specs]
    return Material(
        tuple(
            save(collect_network_tensors(each), build_network_metadata(each, "all"))
            for each in networks
        ),
        tuple(some_maps()),
        tuple(some_fits(folder)),
        some_report(folder),
        tuple(some_head_reports(folder)),
        tuple(some_models(folder)),
    )


def quietly(*arguments: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        assert run_command_line([*arguments, "-q"]) == 0, arguments


def some_maps() -> list[bytes]:
    rng = np.random.default_rng(0)
    full = rng.dirichlet(np.ones(6), size=(2, 6))
    causal = np.tril(rng.random((2, 7, 7))) + np.eye(7)
    causal /= causal.sum(-1, keepdims=True)
    visible = np.tril(np.ones((7, 7), np.uint8))
    heads = {"heads": json.dumps({"layers.0.attention": [0, 1], "layers.3.attention": [4, 1]})}
    described = {"format": "attn-maps", "model": json.dumps({"model_type": "bert"}), **heads}
    return [
        save({"layers.0.attention": full, "layers.1.attention": full[:, ::-1].copy()}),
        save({"layers.0.attention": causal.astype(np.float32), "encoder.layers.1.cross_attention": full}),
        save({"layers.0.attention": causal, "layers.0.visible": visible, "layers.3.attention": causal, "layers.3.visible": visible}, described),
    ]  # fmt: skip


def some_fits(folder: Path) -> list[bytes]:
    found = []
    for name, more in {
        "a": ("window:2",),
        "b": ("previous", "--pattern", "block:2", "--causal"),
    }.items():
        path = folder / f"{name}.safetensors"
        quietly("approximate", "--pattern", *more, "--length", "8", "-o", str(path))
        found.append(path.read_bytes())
    quietly(
        "approximate",
        "--pattern",
        "random:k=2",
        "--length",
        "6",
        "--dtype",
        "float64",
        "-o",
        str(path),
    )
    return [*found, path.read_bytes()]


def some_report(folder: Path) -> Any:
    path = folder / "report.json"
    size = ("--layers", "3", "--tokens", "4", "--width", "4", "--heads", "2", "--seeds", "2")
    quietly("rank-collapse", *size, "--fail-if", "order > 100", "-o", str(path))
    return json.loads(path.read_text())


def some_head_reports(folder: Path) -> Iterator[Any]:
    path = folder / "heads.json"
    tiny = ("inspect-model", "random:bert?tiny", "--random-tokens", "6", "--samples", "3")
    for more in (("--metric", "entropy,sink"), ("--metric", "all", "--with-random-init", "--pairs", "2")):  # fmt: skip
        quietly(*tiny, *more, "-o", str(path))
        yield json.loads(path.read_text())


def some_models(folder: Path) -> list[Path]:
    """bert and gpt2 in one file, llama's kin by its rotary positions, and bert in shards."""
    found = []
    for name, options in (("BertModel", {}), ("GPT2LMHeadModel", {}), ("RoFormerForMaskedLM", {}), ("BertForMaskedLM", {"max_shard_size": "6KB"})):  # fmt: skip
        place = folder / f"{len(found)}-{name}"
        saved(name, place, options=options)
        (place / "tokenizer.json").write_text(json.dumps(tokenizer()))
        (place / "tokenizer_config.json").write_text(
            json.dumps(
                {
                    "tokenizer_class": "PreTrainedTokenizerFast",
                    "unk_token": "[UNK]",
                    "model_max_length": 12,
                }
            )
        )
        (place / "special_tokens_map.json").write_text(
            json.dumps({"unk_token": "[UNK]", "pad_token": "[PAD]"})
        )
        found.append(place)
    words = folder / "words"
    saved("BertModel", words)
    (words / "vocab.txt").write_text("\n".join(WORDS))
    (words / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    )
    return [*found, words]


def tokenizer() -> dict[str, Any]:
    """Words apart by blanks, between two special tokens."""
    special = [{"id": index, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for index, word in enumerate(WORDS[:5])]  # fmt: skip
    around = {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}  # fmt: skip
    pieces = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]  # fmt: skip
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {"type": "TemplateProcessing", "single": pieces, "pair": pieces, "special_tokens": around},
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: index for index, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }  # fmt: skip
