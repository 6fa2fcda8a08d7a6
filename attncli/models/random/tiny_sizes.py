"""Rules that shrink each attribute of a config, by the names that transformers' configs give their sizes."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass


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


Rule = Callable[[TinySizeUnits], int]


def keep_size_constant(size: int) -> Rule:
    return lambda units: size


WIDTH_WORDS = "hidden|embed|embeds|embedding|projection|proj|model|emb|conv|out|output|input|in|inner|latent|bottleneck|query|text|vision|image|audio"

RULES: Sequence[tuple[str, Rule]] = (
    (r".*vocab.*size.*|.*vocab|.*codebook_size|num_embeddings", lambda u: u.vocabulary),
    # heads and their widths
    (
        r".*(key_value_heads|kv_heads|kv_n_heads|linear_num_key_heads)(_per_layer)?",
        lambda u: u.key_heads,
    ),
    (r"mamba_n(um)?_heads|mamba_num_heads|n_mamba_heads", keep_size_constant(8)),
    (r"qk_head_dim", lambda u: u.head_width + u.head_width // 2),
    (r".*rope_head_dim|rotary_dim", lambda u: u.head_width // 2),
    (r".*(head_dim|head_size|d_head|dim_head|d_kv|kv_channels)", lambda u: u.head_width),
    (r".*heads?(_per_layer)?|.*num_heads.*", lambda u: u.heads),
    # depth
    (r".*(layers|n_layer|num_blocks|depth)", lambda u: u.layers),
    # experts
    (r".*(experts_per_tok(en)?|(?<!index_)top_?k|moe_k)", keep_size_constant(2)),
    (r".*(shared_experts?|n_group|num_expert_group|topk_group)", keep_size_constant(1)),
    (r".*experts", keep_size_constant(4)),
    (r"first_k_dense_replace|num_dense_layers|.*sparse_step", keep_size_constant(1)),
    (r"num_queries|two_stage_num_proposals|num_proposals", keep_size_constant(8)),
    # what a token sees
    (
        r"sliding_window(_size)?|local_attention|attention_chunk_size",
        keep_size_constant(4),
    ),
    # state-space and linear layers
    (
        r".*(d_state|state_size|dt_rank|time_step_rank|lora_rank|laurel_rank)",
        keep_size_constant(16),
    ),
    (r".*chunk_size", keep_size_constant(8)),
    # positions
    (r"max_source_positions", keep_size_constant(32)),
    (r".*max_position_embeddings|n_positions|n_ctx|max_target_positions", keep_size_constant(512)),
    # widths
    (
        r".*(intermediate|ffn|mlp|feed_?forward|d_ff|d_inner|dim_ff|dff)(_size|_dim|_hidden_size|_hidden_dim|_mlp)*",
        lambda u: u.mlp_width,
    ),
    (
        rf"(.*_)?({WIDTH_WORDS})_(size|dims?|width|channels)|d_model|n_embd|dim|upsample_groups|.*_dim|.*dimension|.*channels|num_filters|.*hidden_size.*",
        lambda u: u.width,
    ),
)
"""Rules: the first whose pattern matches the attribute's whole name applies; sizes only ever shrink."""

COMPILED = [(re.compile(pattern), rule) for pattern, rule in RULES]


def choose_tiny_size(name: str, value: int, units: TinySizeUnits) -> int:
    """Shrink the size of one attribute; attributes without a rule stay."""
    for pattern, rule in COMPILED:
        if pattern.fullmatch(name):
            return min(value, rule(units))
    return value


def scale_stage_widths(values: Sequence[int], largest: int) -> list[int]:
    """Divide the widths of stages by the same power of two until the largest is small enough."""
    divisor = 1
    while max(values) // divisor > largest and all(value % (2 * divisor) == 0 for value in values):
        divisor *= 2
    return [value // divisor for value in values]
