"""What a model is given and where it lies, broken: own maps, names, texts, adapters, and files that change while they are read."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
from fuzz.forks import Case
from fuzz.material import TEXT, Material
from fuzz.models import COMMANDS, copied
from fuzz.mutations import spoilt_bytes, spoilt_json_text, spoilt_safetensors, spoilt_text

SHAPES = ((5, 5), (2, 5, 5), (3, 2, 5, 5), (3, 2, 2, 5, 5), (5,), (), (0, 5, 5), (2, 5, 0), (2, 5, 4), (2, 2, 2, 2, 2, 2))  # fmt: skip
KEYS = ("attentions.{}", "layer_{}", "layers.{}.attention", "encoder_attentions.{}", "cross_attentions.{}", "x{}", "{}", "arr_{}", "layers.{}.{}", "attentions.-{}", "é{}", "a/b{}")  # fmt: skip
TYPES = ("float64", "float32", "float16", "int64", "uint8", "bool", "complex64", "datetime64[s]", "U3", "object")  # fmt: skip
PLACES = ("./model", "./model/", "./model/.", "model", "./mdoel", "./model@main", "../{}/model", "./model/config.json", "./model/model.safetensors", "random:./model", "./a\nb", "./\x1b[31m", "./é", "./a b", "./-x", "~nobody/x", "./" + "a" * 300, "./model\u202e", "org/model", "a/b/c", "model@", "@main", "..", ".", "/", "//", "./*", "./$(touch x)", "file://model", "s3://b/x", "hf://model", "http://x/y", "random:", "random:bert?", "random:bert?tiny&tiny", "random:bert?tiny=2", "random:bert?heads=0", "random:bert?layers=-1", "random:bert?width=1.5", "random:bert?x=y", "random:bert?layers=1&width=6&heads=4", "model.gguf", "x.safetensors", "x.pt")  # fmt: skip
CHARACTERS = ("\x00", "\ud800", "\u202e", "\ufeff", "\r", "\x0b", "\x85", "a" * 5000, "\n\n\n", "é" * 50, '"', "{", "[[", ",", "\t", "text", "z z z")  # fmt: skip


def own_maps(rng: Random, material: Material, folder: Path) -> Case:
    """Arrays as other programs save them."""
    safetensors_arrays = {}
    key = rng.choice(KEYS)
    shape = rng.choice(SHAPES)
    for index in range(rng.randrange(1, 4)):
        name = (key if rng.random() < 0.8 else rng.choice(KEYS)).replace("{}", str(index))
        safetensors_arrays[name] = some_array(
            rng, shape if rng.random() < 0.8 else rng.choice(SHAPES)
        )
    ending = rng.choice((".npz", ".npy", ".pt"))
    content = saved_as(rng, ending, safetensors_arrays)
    (folder / f"maps{ending}").write_bytes(
        spoilt_bytes(rng, content) if rng.random() < 0.3 else content
    )
    words = [
        "inspect-maps",
        f"maps{ending}",
        "--metric",
        rng.choice(("entropy,sink", "all", "entropy")),
    ]
    if rng.random() < 0.3:
        words += ["--batch", rng.choice(("0", "1", "-1", "99", "x"))]
    if rng.random() < 0.3:
        (folder / "labels.json").write_text(rng.choice(('["a","b","c","d","e"]', '["a"]', "[1]", "{", "a\nb", "[[]]", "")))  # fmt: skip
        words += ["--labels", "labels.json"]
    return Case(words)


def some_array(rng: Random, shape: tuple[int, ...]) -> np.ndarray:
    """Mostly rows that sum to one."""
    drawn = np.random.default_rng(rng.randrange(2**32)).random(shape)
    if shape and shape[-1] and rng.random() < 0.7:
        drawn = drawn / drawn.sum(-1, keepdims=True)
    if drawn.size and rng.random() < 0.3:
        drawn.flat[rng.randrange(drawn.size)] = rng.choice((np.nan, np.inf, -1.0, 1e308, 2.0))
    kind = rng.choice(("float64", "float64", "float32", *TYPES))
    with np.errstate(all="ignore"):
        return (
            drawn.astype(np.int64).astype(kind) if kind.startswith("date") else drawn.astype(kind)
        )


def saved_as(rng: Random, ending: str, arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    if ending == ".npz":
        np.savez(file, **{name.replace("/", "_"): each for name, each in arrays.items()})
    elif ending == ".npy":
        np.save(file, next(iter(arrays.values())))
    else:
        import torch

        tensors = {
            name: torch.from_numpy(each)
            for name, each in arrays.items()
            if each.dtype.kind in "fiub"
        }
        ways = (tensors, list(tensors.values()), tuple(tensors.values()), {"a": tensors}, [[]], 3)
        torch.save(rng.choice(ways), file)
    return file.getvalue()


def name(rng: Random, material: Material, folder: Path) -> Case:
    """Where a model lies, written in every way."""
    model = copied(folder, rng.choice(material.models))
    place = rng.choice(PLACES).replace("{}", folder.name)
    way = rng.random()
    if way < 0.2:
        other = rng.choice(("a b", "é", "-x", "a\nb", "$(x)", "\x1b[31m", "model.json", "x.npz"))
        model.rename(folder / other)
        place = f"./{other}"
    elif way < 0.3:
        place = spoilt_text(rng, place)
    words = [*rng.choice(COMMANDS)]
    words = [place if word == "./model" else word for word in words]
    return Case([*words, "--offline"], environment={"HF_HUB_OFFLINE": "1"})


def text(rng: Random, material: Material, folder: Path) -> Case:
    """Files of texts, and texts on the command line."""
    copied(folder, rng.choice((material.models[0], material.models[1], material.models[4])))
    ending = rng.choice((".txt", ".jsonl", ".json", ".csv", ".tsv", ".html", ""))
    good = {".jsonl": '{"text": "a b c"}\n"d e f"\n', ".json": '["a b", {"text": "c d e"}]', ".csv": "id,text\n1,a b c\n2,d e\n", ".tsv": "text\ta\nb c d\te\n"}  # fmt: skip
    content = good.get(ending, "a b c d\n\ne f g\n\n\nh i j")
    for _ in range(rng.randrange(3)):
        place = rng.randrange(len(content) + 1)
        content = content[:place] + rng.choice(CHARACTERS) + content[place:]
    raw = content.encode("utf-8", "surrogatepass")
    raw = spoilt_bytes(rng, raw) if rng.random() < 0.3 else raw
    (folder / f"texts{ending}").write_bytes(raw)
    words = ["inspect-model", "./model", "--offline", "--metric", "entropy"]
    way = rng.random()
    if way < 0.15:
        return Case([*words, "--text-file", "-"], stdin=raw)
    if way < 0.3:
        said = [rng.choice((TEXT, "", " ", *CHARACTERS[3:])) for _ in range(2)]
        return Case([*words, "--text", said[0], "--text", said[1]])
    if way < 0.45:
        (folder / "ids").write_bytes(spoilt_bytes(rng, b"[[2, 5, 6], [7, 8]]\n"))
        return Case([*words, "--token-ids", rng.choice(("@ids", "@none", "2,5,6", "1,", "-1,2", "99", "2,2.5", "9" * 30, "@"))])  # fmt: skip
    limit = rng.choice(([], ["--tokens", rng.choice(("1", "2", "3", "0", "-1", "99"))]))
    command = rng.choice((words, ["rank-collapse", "./model", "--offline", "--variants", "SAN"]))
    return Case([*command, "--text-file", f"texts{ending}", *limit])


def adapter(rng: Random, material: Material, folder: Path) -> Case:
    """What PEFT leaves, beside a model or alone, and what only looks so."""
    model = copied(folder, rng.choice(material.models[:4]))
    if rng.random() < 0.6:
        for path in (*model.glob("*.safetensors*"), *model.glob("config.json")):
            if rng.random() < 0.6:
                path.unlink()
    said = {"peft_type": "LORA", "base_model_name_or_path": "./base", "r": 2, "target_modules": ["query"]}  # fmt: skip
    if rng.random() < 0.8:
        (model / "adapter_config.json").write_text(spoilt_json_text(rng, said), errors="surrogatepass")  # fmt: skip
    if rng.random() < 0.6:
        (model / "adapter_model.safetensors").write_bytes(spoilt_safetensors(rng, rng.choice(material.maps)))  # fmt: skip
    if rng.random() < 0.2:
        (model / rng.choice(("adapter_model.bin", "pytorch_model.bin", "x.gguf"))).write_bytes(rng.randbytes(50))  # fmt: skip
    more = rng.choice(([], [], ["--allow-pickle"]))
    return Case([*rng.choice(COMMANDS), "--offline", *more])


def reading(rng: Random, material: Material, folder: Path) -> Case:
    """Files that are cut off, overwritten, replaced or removed once so much of them has been read."""
    model = copied(folder, rng.choice(material.models[:4]))
    path = rng.choice(sorted(model.glob("*.safetensors")))
    content, reads = path.read_bytes(), rng.randrange(60)
    harms: tuple[Callable[[], object], ...] = (
        lambda: os.truncate(path, rng.randrange(len(content))),
        lambda: path.write_bytes(spoilt_safetensors(rng, content)),
        lambda: path.write_bytes(rng.randbytes(len(content))),
        path.unlink,
        lambda: (path.unlink(), path.mkdir()),
    )
    harm = rng.choice(harms)
    return Case([*rng.choice(COMMANDS), "--offline"], begin=lambda: harmed_after(reads, harm))


def harmed_after(reads: int, harm: Callable[[], object]) -> None:
    """In the process of the case alone."""
    from attncli.io import safetensors_arrays
    from attncli.models.files import lazy_tensors, weight_hashing

    done, real = 0, safetensors_arrays.read_byte_ranges

    def harmed(*place: object) -> None:
        nonlocal done
        if done == reads:
            harm()
        done += 1
        real(*place)  # type: ignore[arg-type]

    for module in (weight_hashing, lazy_tensors, safetensors_arrays):
        module.read_byte_ranges = harmed  # type: ignore[attr-defined]
