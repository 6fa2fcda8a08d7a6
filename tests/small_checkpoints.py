"""Small random models on disk, for tests of loading: every parameter is drawn, biases and gains included."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel

from attncli.models.quiet_libraries import silence_libraries

torch.set_num_threads(1)

BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "vocab_size": 19,
    "max_position_embeddings": 12,
}
GPT2 = {
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "vocab_size": 19,
    "n_positions": 12,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
T5 = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 2,
    "vocab_size": 19,
    "decoder_start_token_id": 0,
}
BART = {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "vocab_size": 60,
    "max_position_embeddings": 12,
    "pad_token_id": 3,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}
ROFORMER = {**BERT, "embedding_size": 16}
VIT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 8,
    "patch_size": 4,
}

MAMBA = {"hidden_size": 16, "state_size": 4, "num_hidden_layers": 1, "vocab_size": 19}

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "BertModel": ("BertConfig", BERT),
    "BertForSequenceClassification": ("BertConfig", BERT),
    "BertForMaskedLM": ("BertConfig", BERT),
    "RobertaForMaskedLM": ("RobertaConfig", {**BERT, "pad_token_id": 1}),
    "GPT2LMHeadModel": ("GPT2Config", GPT2),
    "T5ForConditionalGeneration": ("T5Config", T5),
    "BartForConditionalGeneration": ("BartConfig", BART),
    "MBartForConditionalGeneration": ("MBartConfig", {**BART, "decoder_start_token_id": 0}),
    "RoFormerForMaskedLM": ("RoFormerConfig", ROFORMER),
    "MambaForCausalLM": ("MambaConfig", MAMBA),
    "ViTModel": ("ViTConfig", VIT),
    "ViTForImageClassification": ("ViTConfig", VIT),
}


def model_of(name: str, **changes: Any) -> PreTrainedModel:
    config, sizes = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, name)(getattr(transformers, config)(**{**sizes, **changes}))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def saved(
    name: str,
    folder: Path,
    dtype: Any = torch.float32,
    options: Mapping[str, Any] = MappingProxyType({}),
    **changes: Any,
) -> PreTrainedModel:
    """A model and its folder."""
    model = model_of(name, **changes).to(dtype)
    with silence_libraries():
        model.save_pretrained(folder, **options)
    return model


def change_config(folder: Path, **changes: Any) -> None:
    """Other values; None takes the name away."""
    path = folder / "config.json"
    said = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in said.items() if value is not None}))
