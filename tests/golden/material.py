"""The files that the cases read, made without attncli; a case has its own copies of those that it names."""

import contextlib
import io
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "the", "dog", "fox", "her", "at", "barked", "quick", "over", "lazy", ".")  # fmt: skip
VOCABULARY = 32
BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": VOCABULARY, "max_position_embeddings": 40}  # fmt: skip
TEXT = "The quick fox barked at her.\n\nA lazy dog over the quick dog.\n\nThe dog at the fox.\n"


def make(folder: Path) -> None:
    """Every file and folder of the material, but what `MADE_BY_ATTN` makes."""
    texts(folder)
    arrays(folder)
    broken(folder)
    models(folder)


SIZES = "--layers 3 --tokens 5 --width 8 --heads 2"
MADE_BY_ATTN = (
    f"generate network {SIZES} --seed 3 -q -o net.safetensors",
    f"generate network {SIZES} --seed 4 --init-scale 0.8 --mask causal --norm layer -q -o net-7.safetensors",
    "generate maps --map sink --map induction:4 --map iid:sigma=2 --tokens 9 --heads 2 -q -o maps.safetensors",
    "approximate --pattern window:2 --length 8 -q -o fit.safetensors",
    f"rank-collapse {SIZES} --seeds 3 -q -o report.json",
    f"rank-collapse {SIZES} --seeds 3 --seed 5 -q -o report-other.json",
    "inspect-model ./bert --random-tokens 8 --samples 3 -q -o report-heads.json",
    "inspect-model ./bert --random-tokens 8 --samples 3 --seed 4 -q -o report-heads-other.json",
)
"""Command lines of files that only attncli writes; they keep their spelling."""


def texts(folder: Path) -> None:
    (folder / "essays.txt").write_text(TEXT)
    (folder / "labels.txt").write_text("".join(f"w{n}\n" for n in range(7)))
    (folder / "ids.json").write_text("[[2, 5, 6, 7, 3], [2, 9, 10, 3]]")
    (folder / "texts.jsonl").write_text('{"text": "The dog."}\n{"text": "The lazy fox."}\n')
    (folder / "models.txt").write_text("net.safetensors\n# a remark\nnet-7.safetensors\n")


def arrays(folder: Path) -> None:
    """Maps and patterns of other programs."""
    rng = np.random.default_rng(0)
    maps = rng.dirichlet(np.ones(7), size=(2, 3, 7))
    np.save(folder / "maps.npy", maps)
    np.savez(folder / "maps.npz", maps=maps)
    np.savez(folder / "several.npz", a=maps, b=maps[:, ::-1])
    np.save(folder / "maps-batch.npy", rng.dirichlet(np.ones(6), size=(2, 2, 3, 6)))
    np.save(folder / "pattern.npy", np.eye(6, k=-1) + np.eye(6))
    np.savetxt(folder / "pattern.csv", np.tril(np.ones((5, 5))), delimiter=",")
    np.save(folder / "numbers.npy", rng.normal(size=(4, 4)))


def broken(folder: Path) -> None:
    """What is refused."""
    (folder / "broken.json").write_text('{"schema_version": 2, "rows": [')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "broken.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0{not a header}xx")
    (folder / "short.npy").write_bytes(b"\x93NUMPY\x01\0v")
    (folder / "broken.toml").write_text("[rank-collapse]\nseeds = = 3\n")
    (folder / "weights.bin").write_bytes(pickle.dumps({"w": [1.0, 2.0]}))
    (folder / "empty-file.txt").write_text("")
    (folder / "empty-folder").mkdir()
    (folder / "gguf.gguf").write_bytes(b"GGUF\x03\0\0\0")


def models(folder: Path) -> None:
    import torch
    import transformers as hf

    makers: dict[str, Callable[[], Any]] = {
        "bert": lambda: hf.BertModel(hf.BertConfig(**BERT)),
        "bert-2": lambda: hf.BertModel(hf.BertConfig(**BERT)),
        "classifier": lambda: hf.BertForSequenceClassification(hf.BertConfig(**BERT)),
        "masked": lambda: hf.BertForMaskedLM(hf.BertConfig(**BERT)),
        "gpt2": lambda: gpt2(),
        "gpt2-half": lambda: gpt2().to(torch.bfloat16),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**BERT, num_key_value_heads=1)),
        "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, vocab_size=VOCABULARY, decoder_start_token_id=0)),
        "vit": lambda: hf.ViTForImageClassification(hf.ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=8, patch_size=4)),
    }  # fmt: skip
    quiet = io.StringIO()
    for seed, (name, make_one) in enumerate(makers.items()):
        torch.manual_seed(seed)
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            drawn(make_one()).save_pretrained(folder / name)
        if name != "vit":
            tokenizer(folder / name)
    spoilt(folder)


def gpt2() -> Any:
    import transformers as hf

    sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": VOCABULARY, "n_positions": 40}
    return hf.GPT2LMHeadModel(hf.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


def drawn(model: Any) -> Any:
    """Every parameter, so that no bias is zero."""
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({w: n for n, w in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])  # fmt: skip
    made.save(str(folder / "tokenizer.json"))
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "pad_token": "[PAD]", "mask_token": "[MASK]", "model_max_length": 40}  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps(said))


def spoilt(folder: Path) -> None:
    """Checkpoints that something is wrong with."""
    changes = {"bad-type": {"model_type": "zzzz"}, "bad-sizes": {"num_attention_heads": 3}, "bad-layers": {"num_hidden_layers": -1}}  # fmt: skip
    for name, change in changes.items():
        shutil.copytree(folder / "bert", folder / name)
        config = folder / name / "config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    shutil.copytree(folder / "bert", folder / "bad-json")
    (folder / "bad-json" / "config.json").write_text("{")
    shutil.copytree(folder / "bert", folder / "cut")
    weights = folder / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    shutil.copytree(folder / "bert", folder / "no-weights")
    (folder / "no-weights" / "model.safetensors").unlink()
    shutil.copytree(folder / "bert", folder / "deeper")
    config = folder / "deeper" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_hidden_layers": 3}))
