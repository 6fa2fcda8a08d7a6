"""What is known about each model type: where its queries and keys are, and what happens to them before the softmax.

A family that is not here is refused by name: positions, norms or scales that one does not know make wrong numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from attncli.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class Family:
    """Tensor names without their prefix; `{l}` is the layer (ALBERT: its group), `{p}` the one before it."""

    query: str
    key: str = ""
    """Empty: `query` holds queries, keys and values at once."""
    layout: str = "linear"
    """linear [out, in]; conv1d [in, out], fused in the order q, k, v; interleaved [head, (q, k, v), in], fused."""
    causal: bool = False
    norm: str = ""
    """The norm whose output the projections read."""
    first_norm: str = ""
    """The same for layer 0, where it is another one; `none` where there is none."""
    rms: bool = False
    rotary: float = 0.0
    """The share of a head's features that turns by position (unless the config says another); 0: none does."""
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    layers: str = "num_hidden_layers"
    """The config's own words for these three."""


BERT = Family(
    query="encoder.layer.{l}.attention.self.query",
    key="encoder.layer.{l}.attention.self.key",
    norm="encoder.layer.{p}.output.LayerNorm",
    first_norm="embeddings.LayerNorm",
)
ALBERT = Family(
    query="encoder.albert_layer_groups.{l}.albert_layers.0.attention.query",
    key="encoder.albert_layer_groups.{l}.albert_layers.0.attention.key",
    norm="encoder.albert_layer_groups.{p}.albert_layers.0.full_layer_layer_norm",
    first_norm="none",  # the embeddings' norm stands before a projection to the hidden size
)
DISTILBERT = Family(
    query="transformer.layer.{l}.attention.q_lin",
    key="transformer.layer.{l}.attention.k_lin",
    norm="transformer.layer.{p}.output_layer_norm",
    first_norm="embeddings.LayerNorm",
    hidden="dim",
    heads="n_heads",
    layers="n_layers",
)
VIT = Family(
    query="encoder.layer.{l}.attention.attention.query",
    key="encoder.layer.{l}.attention.attention.key",
    norm="encoder.layer.{l}.layernorm_before",
)
GPT2 = Family(
    query="h.{l}.attn.c_attn",
    layout="conv1d",
    causal=True,
    norm="h.{l}.ln_1",
    hidden="n_embd",
    heads="n_head",
    layers="n_layer",
)
NEOX = Family(
    query="layers.{l}.attention.query_key_value",
    layout="interleaved",
    causal=True,
    norm="layers.{l}.input_layernorm",
    rotary=0.25,
)
LLAMA = Family(
    query="layers.{l}.self_attn.q_proj",
    key="layers.{l}.self_attn.k_proj",
    causal=True,
    norm="layers.{l}.input_layernorm",
    rms=True,
    rotary=1.0,
)

FAMILIES: Mapping[str, Family] = {
    "albert": ALBERT,
    "bert": BERT,
    "camembert": BERT,
    "deit": VIT,
    "distilbert": DISTILBERT,
    "electra": BERT,
    "gpt2": GPT2,
    "gpt_neox": NEOX,
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "roberta": BERT,
    "vit": VIT,
    "xlm-roberta": BERT,
}

REASONS: Mapping[str, str] = {
    "qwen3": "it normalises queries and keys (QK-norm), which no linear inverse undoes",
    "olmo2": "it normalises queries and keys (QK-norm), which no linear inverse undoes",
    "gemma2": "it caps its logits",
    "gemma3_text": "it normalises queries and keys (QK-norm), which no linear inverse undoes",
    "t5": "its logits carry a relative bias",
    "deberta-v2": "its logits carry disentangled relative terms",
    "bloom": "its logits carry a bias by distance (ALiBi)",
    "mpt": "its logits carry a bias by distance (ALiBi)",
    "gptj": "it turns neighbouring features by position, a layout not read here",
    "roformer": "it turns neighbouring features by position, a layout not read here",
}


def family_of(where: str, config: Mapping[str, object]) -> Family:
    """The family that the config names, or a refusal that names it."""
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise InputError(
            f'{where} names no model_type: add it by hand, as in "model_type": "bert", if you know it.'
        )
    if kind not in FAMILIES:
        why = REASONS.get(kind, f"there are: {', '.join(FAMILIES)}")
        raise UsageError(f"model type '{kind}' ({where}) cannot be used: {why}.")
    return FAMILIES[kind]
