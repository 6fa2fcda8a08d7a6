"""Rules that shrink each attribute of a config, by the names that transformers' configs give their sizes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TinySizeUnits:
    """The base sizes that all others follow; the user's sizes replace them."""

    layers: int = 2
    width: int = 64
    """A multiple of 32, for the group norms of vision models."""
    heads: int = 4
    key_heads: int = 2
    mlp_width: int = 128
    vocabulary: int = 128

    @property
    def head_width(self) -> int:
        """16 by default: a multiple of 8, so that half of it can turn with two-dimensional positions."""
        return max(1, self.width // self.heads)


OF_UNITS = re.compile(r"= (?:(\d+) \* )?(\w+)(?: // (\d+))?(?: \+ (\d+))?")


def compute_size_from_units(value: Any, units: TinySizeUnits) -> Any:
    """A value that a function, or a text such as `= 2 * width`, computes from the units; any other as it is."""
    if callable(value):
        return value(units)
    if isinstance(value, list):
        return [compute_size_from_units(each, units) for each in value]
    found = OF_UNITS.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    times, unit, parts, more = found.groups()
    return int(times or 1) * getattr(units, unit) // int(parts or 1) + int(more or 0)


WIDTH_WORDS = "hidden|embed|embeds|embedding|projection|proj|model|emb|conv|out|output|input|in|inner|latent|bottleneck|query|text|vision|image|audio"

RULES: Sequence[tuple[str, int | str]] = (
    (r".*vocab.*size.*|.*vocab|.*codebook_size|num_embeddings", "= vocabulary"),
    # heads and their widths
    (r".*(key_value_heads|kv_heads|kv_n_heads|linear_num_key_heads)(_per_layer)?", "= key_heads"),
    (r"mamba_n(um)?_heads|mamba_num_heads|n_mamba_heads", 8),
    (r"qk_head_dim", "= 3 * head_width // 2"),
    (r".*rope_head_dim|rotary_dim", "= head_width // 2"),
    (r".*(head_dim|head_size|d_head|dim_head|d_kv|kv_channels)", "= head_width"),
    (r".*heads?(_per_layer)?|.*num_heads.*", "= heads"),
    # depth
    (r".*(layers|n_layer|num_blocks|depth)", "= layers"),
    # experts
    (r".*(experts_per_tok(en)?|(?<!index_)top_?k|moe_k)", 2),
    (r".*(shared_experts?|n_group|num_expert_group|topk_group)", 1),
    (r".*experts", 4),
    (r"first_k_dense_replace|num_dense_layers|.*sparse_step", 1),
    (r"num_queries|two_stage_num_proposals|num_proposals", 8),
    # what a token sees
    (r"sliding_window(_size)?|local_attention|attention_chunk_size", 4),
    # state-space and linear layers
    (r".*(d_state|state_size|dt_rank|time_step_rank|lora_rank|laurel_rank)", 16),
    (r".*chunk_size", 8),
    # positions
    (r"max_source_positions", 32),
    (r".*max_position_embeddings|n_positions|n_ctx|max_target_positions", 512),
    # widths
    (
        r".*(intermediate|ffn|mlp|feed_?forward|d_ff|d_inner|dim_ff|dff)(_size|_dim|_hidden_size|_hidden_dim|_mlp)*",
        "= mlp_width",
    ),
    (
        rf"(.*_)?({WIDTH_WORDS})_(size|dims?|width|channels)|d_model|n_embd|dim|upsample_groups|.*_dim|.*dimension|.*channels|num_filters|.*hidden_size.*",
        "= width",
    ),
)
"""Rules: the first whose pattern matches the attribute's whole name applies; sizes only ever shrink."""

COMPILED = [(re.compile(pattern), size) for pattern, size in RULES]


def choose_tiny_size(name: str, value: int, units: TinySizeUnits) -> int:
    """Shrink the size of one attribute; attributes without a rule stay."""
    for pattern, size in COMPILED:
        if pattern.fullmatch(name):
            return min(value, int(compute_size_from_units(size, units)))
    return value


def scale_stage_widths(values: Sequence[int], largest: int) -> list[int]:
    """Divide the widths of stages by the same power of two until the largest is small enough."""
    divisor = 1
    while max(values) // divisor > largest and all(value % (2 * divisor) == 0 for value in values):
        divisor *= 2
    return [value // divisor for value in values]
