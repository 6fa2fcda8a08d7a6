"""Model types by name: where their heads' weights are, and what happens between them and the softmax.

Other families are refused by name: unknown positions, norms or scales would give wrong numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from attncli.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class HeadFamily:
    """Tensor names without their prefix; `{l}` is the layer (ALBERT: its group), `{p}` the one before it."""

    query: str
    output: str
    """Heads back to the hidden size."""
    key: str = ""
    """Empty: `query` holds queries, keys and values at once."""
    value: str = ""
    layout: str = "linear"
    """linear [out, in]; conv1d [in, out], fused in the order q, k, v; blocks [out, in], fused in that order;
    interleaved [head, (q, k, v), in], fused."""
    causal: bool = False
    norm: str = ""
    """The norm whose output the projections read; empty: none."""
    first_norm: str = ""
    """The same for layer 0, where it is another one; `none` where there is none."""
    pre_norm: bool = False
    """Whether that norm is in the branch, so that its gain belongs to the head; else its output is the stream."""
    rms: bool = False
    unit_offset: bool = False
    """The norm multiplies by 1 + its stored gain."""
    rotary: float = 0.0
    """The share of a head's features that rotate by position (unless the config sets another); 0: none does."""
    qk_norm: bool = False
    """Queries and keys are normalised, so that logits are no bilinear form of the input."""
    logits: str = ""
    """What else its logits go through, described; empty: they are scaled products of queries and keys."""
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    layers: str = "num_hidden_layers"
    """The config's own names for these three."""


QK_NORM = "it normalises queries and keys (QK-norm), which no linear inverse undoes"
ALIBI = "its logits carry a bias by distance (ALiBi)"
NEIGHBOURS = "it turns neighbouring features by position, a layout not read here"

BERT = HeadFamily(
    query="encoder.layer.{l}.attention.self.query",
    key="encoder.layer.{l}.attention.self.key",
    value="encoder.layer.{l}.attention.self.value",
    output="encoder.layer.{l}.attention.output.dense",
    norm="encoder.layer.{p}.output.LayerNorm",
    first_norm="embeddings.LayerNorm",
)
ALBERT = HeadFamily(
    query="encoder.albert_layer_groups.{l}.albert_layers.0.attention.query",
    key="encoder.albert_layer_groups.{l}.albert_layers.0.attention.key",
    value="encoder.albert_layer_groups.{l}.albert_layers.0.attention.value",
    output="encoder.albert_layer_groups.{l}.albert_layers.0.attention.dense",
    norm="encoder.albert_layer_groups.{p}.albert_layers.0.full_layer_layer_norm",
    first_norm="none",  # the embeddings' norm comes before a projection to the hidden size
)
DISTILBERT = HeadFamily(
    query="transformer.layer.{l}.attention.q_lin",
    key="transformer.layer.{l}.attention.k_lin",
    value="transformer.layer.{l}.attention.v_lin",
    output="transformer.layer.{l}.attention.out_lin",
    norm="transformer.layer.{p}.output_layer_norm",
    first_norm="embeddings.LayerNorm",
    hidden="dim",
    heads="n_heads",
    layers="n_layers",
)
VIT = HeadFamily(
    query="encoder.layer.{l}.attention.attention.query",
    key="encoder.layer.{l}.attention.attention.key",
    value="encoder.layer.{l}.attention.attention.value",
    output="encoder.layer.{l}.attention.output.dense",
    norm="encoder.layer.{l}.layernorm_before",
    pre_norm=True,
)
GPT2 = HeadFamily(
    query="h.{l}.attn.c_attn",
    output="h.{l}.attn.c_proj",
    layout="conv1d",
    causal=True,
    norm="h.{l}.ln_1",
    pre_norm=True,
    hidden="n_embd",
    heads="n_head",
    layers="n_layer",
)
GPTJ = HeadFamily(
    query="h.{l}.attn.q_proj",
    key="h.{l}.attn.k_proj",
    value="h.{l}.attn.v_proj",
    output="h.{l}.attn.out_proj",
    causal=True,
    norm="h.{l}.ln_1",
    pre_norm=True,
    rotary=1.0,
    logits=NEIGHBOURS,
    hidden="n_embd",
    heads="n_head",
    layers="n_layer",
)
GPT_NEO = HeadFamily(
    query="h.{l}.attn.attention.q_proj",
    key="h.{l}.attn.attention.k_proj",
    value="h.{l}.attn.attention.v_proj",
    output="h.{l}.attn.attention.out_proj",
    causal=True,
    norm="h.{l}.ln_1",
    pre_norm=True,
    logits="it does not scale its logits by 1/√d",
    heads="num_heads",
    layers="num_layers",
)
OPT = HeadFamily(
    query="decoder.layers.{l}.self_attn.q_proj",
    key="decoder.layers.{l}.self_attn.k_proj",
    value="decoder.layers.{l}.self_attn.v_proj",
    output="decoder.layers.{l}.self_attn.out_proj",
    causal=True,
    norm="decoder.layers.{l}.self_attn_layer_norm",
    pre_norm=True,
)
NEOX = HeadFamily(
    query="layers.{l}.attention.query_key_value",
    output="layers.{l}.attention.dense",
    layout="interleaved",
    causal=True,
    norm="layers.{l}.input_layernorm",
    pre_norm=True,
    rotary=0.25,
)
BLOOM = HeadFamily(
    query="h.{l}.self_attention.query_key_value",
    output="h.{l}.self_attention.dense",
    layout="interleaved",
    causal=True,
    norm="h.{l}.input_layernorm",
    pre_norm=True,
    logits=ALIBI,
    heads="n_head",
    layers="n_layer",
)
MPT = HeadFamily(
    query="blocks.{l}.attn.Wqkv",
    output="blocks.{l}.attn.out_proj",
    layout="blocks",
    causal=True,
    norm="blocks.{l}.norm_1",
    pre_norm=True,
    logits=ALIBI,
    hidden="d_model",
    heads="n_heads",
    layers="n_layers",
)
LLAMA = HeadFamily(
    query="layers.{l}.self_attn.q_proj",
    key="layers.{l}.self_attn.k_proj",
    value="layers.{l}.self_attn.v_proj",
    output="layers.{l}.self_attn.o_proj",
    causal=True,
    norm="layers.{l}.input_layernorm",
    pre_norm=True,
    rms=True,
    rotary=1.0,
)
GEMMA = replace(LLAMA, unit_offset=True)
PHI3 = replace(LLAMA, query="layers.{l}.self_attn.qkv_proj", key="", value="", layout="blocks")
QWEN3 = replace(LLAMA, qk_norm=True, logits=QK_NORM)

FAMILIES: Mapping[str, HeadFamily] = {
    "albert": ALBERT,
    "bert": BERT,
    "bloom": BLOOM,
    "camembert": BERT,
    "deit": VIT,
    "distilbert": DISTILBERT,
    "electra": BERT,
    "gemma": GEMMA,
    "gemma2": replace(GEMMA, logits="it caps its logits"),
    "gemma3_text": replace(GEMMA, qk_norm=True, logits=QK_NORM),
    "gpt2": GPT2,
    "gpt_neo": GPT_NEO,
    "gpt_neox": NEOX,
    "gpt_oss": replace(LLAMA, logits="its softmax has learned sink logits"),
    "gptj": GPTJ,
    "llama": LLAMA,
    "mistral": LLAMA,
    "mixtral": LLAMA,
    "mpt": MPT,
    "olmo2": replace(LLAMA, norm="", pre_norm=False, qk_norm=True, logits=QK_NORM),
    "opt": OPT,
    "phi3": PHI3,
    "qwen2": LLAMA,
    "qwen2_moe": LLAMA,
    "qwen3": QWEN3,
    "qwen3_moe": QWEN3,
    "roberta": BERT,
    "roformer": replace(BERT, rotary=1.0, logits=NEIGHBOURS),
    "vit": VIT,
    "xlm-roberta": BERT,
}

REASONS: Mapping[str, str] = {
    "t5": "its logits carry a relative bias, and it has three kinds of attention",
    "deberta-v2": "its logits carry disentangled relative terms",
    "qwen3_next": "its layers are of two kinds, and its queries come fused with gates",
}


def explain_no_family(config: Mapping[str, object]) -> str:
    """Explain why the weights of its heads are not read; empty where they are."""
    kind = config.get("model_type")
    if kind in FAMILIES:
        return ""
    unknown = "which of its weights make queries, keys and values is not known here"
    return f"model type '{kind}': {REASONS.get(str(kind), unknown)}"


def find_family(where: str, config: Mapping[str, object]) -> HeadFamily:
    """Find the family that the config names; refuse an unknown one by name."""
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise InputError(
            f'{where} names no model_type: add it by hand, as in "model_type": "bert", if you know it.'
        )
    if kind not in FAMILIES:
        why = REASONS.get(kind, f"there are: {', '.join(FAMILIES)}")
        raise UsageError(f"model type '{kind}' ({where}) cannot be used: {why}.")
    return FAMILIES[kind]
