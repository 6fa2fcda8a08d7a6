"""A tiny random model of every family whose heads are read from files, its biases and gains drawn too."""

from pathlib import Path
from typing import Any

import torch
import transformers

from attncli.models.quiet_libraries import silence_libraries

torch.set_num_threads(1)

LAYER = 1
"""The layer that is looked at: layer 0 is easily met by chance."""
HIDDEN, HEADS = 48, 4

SIZES = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "intermediate_size": 16,
    "vocab_size": 11,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
GQA = {**SIZES, "num_key_value_heads": 2}
IMAGE = {k: v for k, v in SIZES.items() if not k.endswith("_id") and k != "vocab_size"} | {
    "image_size": 8,
    "patch_size": 4,
}
MOE = {"moe_intermediate_size": 8, "num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1}  # fmt: skip
OLD = {
    "n_embd": HIDDEN,
    "n_layer": 2,
    "n_head": HEADS,
    "vocab_size": 11,
    "n_positions": 16,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertConfig", SIZES),
    "roberta": ("RobertaConfig", SIZES),
    "camembert": ("CamembertConfig", SIZES),
    "xlm-roberta": ("XLMRobertaConfig", SIZES),
    "electra": ("ElectraConfig", {**SIZES, "embedding_size": HIDDEN}),
    "distilbert": (
        "DistilBertConfig",
        {"dim": HIDDEN, "n_layers": 2, "n_heads": HEADS, "hidden_dim": 16, "vocab_size": 11},
    ),
    "albert": ("AlbertConfig", {**SIZES, "embedding_size": 8}),
    "roformer": ("RoFormerConfig", {**SIZES, "embedding_size": HIDDEN}),
    "vit": ("ViTConfig", IMAGE),
    "deit": ("DeiTConfig", IMAGE),
    "gpt2": ("GPT2Config", {**OLD, "scale_attn_by_inverse_layer_idx": True}),
    "gptj": ("GPTJConfig", {**OLD, "rotary_dim": 8}),
    "gpt_neo": (
        "GPTNeoConfig",
        {**SIZES, "num_layers": 2, "num_heads": HEADS, "attention_types": [[["global"], 2]]},
    ),
    "opt": ("OPTConfig", {**SIZES, "ffn_dim": 16, "word_embed_proj_dim": HIDDEN}),
    "gpt_neox": ("GPTNeoXConfig", SIZES),
    "bloom": ("BloomConfig", {**SIZES, "n_layer": 2, "n_head": HEADS}),
    "mpt": (
        "MptConfig",
        {
            "d_model": HIDDEN,
            "n_layers": 2,
            "n_heads": HEADS,
            "vocab_size": 11,
            "expansion_ratio": 1,
        },
    ),
    "llama": ("LlamaConfig", {**GQA, "head_dim": 10}),
    "mistral": ("MistralConfig", GQA),
    "mixtral": ("MixtralConfig", {**GQA, **MOE}),
    "qwen2": ("Qwen2Config", GQA),
    "qwen2_moe": ("Qwen2MoeConfig", {**GQA, **MOE, "shared_expert_intermediate_size": 8}),
    "qwen3": ("Qwen3Config", {**GQA, "head_dim": 12}),
    "qwen3_moe": ("Qwen3MoeConfig", {**GQA, **MOE, "head_dim": 12}),
    "olmo2": ("Olmo2Config", GQA),
    "gemma": ("GemmaConfig", {**GQA, "head_dim": 10}),
    "gemma2": ("Gemma2Config", {**GQA, "head_dim": 10}),
    "gemma3_text": ("Gemma3TextConfig", {**GQA, "head_dim": 10}),
    "phi3": ("Phi3Config", GQA),
    "gpt_oss": (
        "GptOssConfig",
        {
            **GQA,
            **MOE,
            "head_dim": 12,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
}


def model_of(kind: str, **changes: Any) -> Any:
    """In float64."""
    name, values = MODELS[kind]
    config = getattr(transformers, name)(
        **{**values, **changes}, attn_implementation="eager", experts_implementation="eager"
    )  # the grouped one knows no float64
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = transformers.AutoModel.from_config(config).eval()
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.double()


def saved(kind: str, folder: Path, dtype: Any = torch.float64, **changes: Any) -> Any:
    """The model, on disk."""
    model = model_of(kind, **changes).to(dtype)
    with silence_libraries():
        model.save_pretrained(folder)
    return model
