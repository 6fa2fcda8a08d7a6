"""Broken checkpoints: config, weights, shards, tokenizers; whatever loads is held against transformers' own attention."""

import json
import math
import shutil
from pathlib import Path
from random import Random

import numpy as np
from fuzz.forks import Case, Check
from fuzz.material import TEXT, Material
from fuzz.mutations import spoilt_json_text, spoilt_safetensors, spoilt_text

IDS = "2,7,5,9,4,3"
COMMANDS = (
    [
        "inspect-model",
        "./model",
        "--token-ids",
        IDS,
        "--metric",
        "entropy,sink",
        "--format",
        "json",
    ],
    [
        "inspect-model",
        "./model",
        "--token-ids",
        IDS,
        "--metric",
        "entropy,sink",
        "--format",
        "json",
    ],
    ["inspect-weights", "./model", "--format", "csv"],
    ["rank-collapse", "./model", "--token-ids", IDS, "--variants", "SAN,transformer"],
    ["rank-collapse", "./model", "--token-ids", IDS, "--variants", "SAN", "--exact"],
    ["paths", "./model", "--token-ids", IDS],
    ["count-paths", "./model"],
    ["head-capacity", "./model", "--head", "0.1", "--pattern", "window:2", "--length", "6"],
    [
        "approximate",
        "--pattern",
        "./model:1.0:top=2",
        "--token-ids",
        IDS,
        "--method",
        "cyclic",
        "--width",
        "9",
    ],
)


def copied(folder: Path, model: Path) -> Path:
    shutil.copytree(model, folder / "model")
    return folder / "model"


def run(rng: Random) -> Case:
    words = rng.choice(COMMANDS)
    check: Check | None = wrong_attention if "entropy,sink" in words else None
    return Case([*words, "--offline"], check)


def config(rng: Random, material: Material, folder: Path) -> Case:
    path = copied(folder, rng.choice(material.models[:3])) / "config.json"
    path.write_text(spoilt_json_text(rng, json.loads(path.read_text())), errors="surrogatepass")
    return run(rng)


def weights(rng: Random, material: Material, folder: Path) -> Case:
    path = copied(folder, rng.choice(material.models[:3])) / "model.safetensors"
    path.write_bytes(spoilt_safetensors(rng, path.read_bytes()))
    return run(rng)


def shards(rng: Random, material: Material, folder: Path) -> Case:
    place = copied(folder, material.models[3])
    if rng.random() < 0.7:
        path = place / "model.safetensors.index.json"
        path.write_text(spoilt_json_text(rng, json.loads(path.read_text())), errors="surrogatepass")
    else:
        path = rng.choice(sorted(place.glob("model-*.safetensors")))
        path.write_bytes(spoilt_safetensors(rng, path.read_bytes()))
    return run(rng)


def tokenizer(rng: Random, material: Material, folder: Path) -> Case:
    model = rng.choice((material.models[0], material.models[1], material.models[4]))
    place = copied(folder, model)
    path = rng.choice(
        [*place.glob("*token*.json"), *place.glob("tokenizer.json"), *place.glob("vocab.txt")]
    )
    if path.suffix == ".json":
        text = spoilt_json_text(rng, json.loads(path.read_text()))
    else:
        text = spoilt_text(rng, path.read_text())
    path.write_text(text, errors="surrogatepass")
    words = ["inspect-model", "./model", "--text", rng.choice((TEXT, TEXT, "z z", "é\x00", "a" * 300)), "--metric", "entropy", "--format", "json"]  # fmt: skip
    return Case([*words, "--offline"])


def wrong_attention(folder: Path, out: str, code: int) -> str | None:
    """Entropy and sink of the maps that transformers returns from its eager attention."""
    import torch
    from transformers import AutoModel

    document = json.loads(out)
    model = AutoModel.from_pretrained(folder / "model", attn_implementation="eager").eval()
    ids = torch.tensor([[int(part) for part in IDS.split(",")]])
    with torch.no_grad():
        maps = model(input_ids=ids, output_attentions=True).attentions
    causal = all(not np.triu(each[0, 0].numpy(), 1).any() for each in maps)
    for row in document["rows"]:
        if row["metric"] not in ("entropy", "sink") or row["value"] is None or row.get("uniform"):
            continue
        a = maps[row["layer"]][0, row["head"]].double().numpy()
        with np.errstate(all="ignore"):
            entropy = -np.where(a > 0, a * np.log(a), 0.0).sum(1).mean()
        true = {"entropy": entropy, "sink": a[:, 0].mean()}[row["metric"]]
        if causal and row["metric"] == "sink" and not a[0, 1:].any():
            true = a[:, 0].mean()
        if not math.isclose(row["value"], float(true), rel_tol=2e-3, abs_tol=2e-4):
            return f"{row['metric']} of {row['layer']}.{row['head']}: {row['value']} and not {true}"
    return None
