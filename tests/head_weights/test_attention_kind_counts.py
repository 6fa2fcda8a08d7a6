"""What configs and tensor names say about the kinds of attention in a model."""

from typing import Any

import pytest
from family_models import MODELS, model_of

from attncli.head_weights.attention_kind_counts import AttentionLayerCounts, count_attention_kinds

LLAMA = {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2}


@pytest.mark.parametrize("kind", MODELS)
def test_sizes_of_every_family(kind: str) -> None:
    """As the model has them, whatever its config calls them."""
    model = model_of(kind)
    found = count_attention_kinds(model.config.to_dict(), list(model.state_dict()))
    grouped = getattr(model.config, "num_key_value_heads", None) == 2
    assert (found.layers, found.heads, found.queries_per_key_head) == (
        2,
        4,
        2.0 if grouped else 1.0,
    )
    assert sum(found.kinds.values()) == 2
    assert found.qk_norm == (2 if kind in ("qwen3", "qwen3_moe", "olmo2", "gemma3_text") else 0)
    assert found.sinks == (2 if kind == "gpt_oss" else 0)
    assert found.gates == 0


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ({}, {"full": 4}),
        (
            {"layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
            {"sliding": 3, "full": 1},
        ),
        ({"layer_types": ["linear_attention"] * 3 + ["full_attention"]}, {"linear": 3, "full": 1}),
        ({"attention_layers": ["global", "local"] * 2}, {"full": 2, "sliding": 2}),
        ({"sliding_window": 16, "model_type": "mistral"}, {"sliding": 4}),
        ({"sliding_window": 16, "use_sliding_window": False}, {"full": 4}),
        ({"sliding_window": 16, "model_type": "gemma2"}, {}),
    ],
)
def test_kinds_of_layers(said: dict[str, Any], kinds: dict[str, int]) -> None:
    """The last: the window alternates there, and a config that does not list its layers does not say so."""
    assert count_attention_kinds({**LLAMA, **said}, []).kinds == kinds


def test_the_text_model_of_several_towers_is_counted() -> None:
    assert (
        count_attention_kinds(
            {"text_config": LLAMA, "vision_config": {"num_hidden_layers": 9}}, []
        ).layers
        == 4
    )


def test_what_layers_have_of_their_own_is_no_number_of_all() -> None:
    apart = {"per_layer_config": {"02": {"num_attention_heads": 2, "intermediate_size": 8}}}
    found = count_attention_kinds({**LLAMA, **apart}, [])
    assert (found.layers, found.heads, found.queries_per_key_head) == (4, None, None)
    assert count_attention_kinds(
        {**LLAMA, "per_layer_config": {"2": {"intermediate_size": 8}}}, []
    ) == count_attention_kinds(LLAMA, [])


def test_gates_count_in_attention_alone() -> None:
    names = ["layers.0.mlp.gate_proj.weight", "layers.0.block_sparse_moe.gate.weight"]
    assert count_attention_kinds(LLAMA, names).gates == 0
    names += [f"model.layers.{layer}.self_attn.gate_proj.weight" for layer in (1, 3)]
    assert count_attention_kinds(LLAMA, names).gates == 2
    assert count_attention_kinds({**LLAMA, "attn_output_gate": True}, []).gates == 4


def test_in_words() -> None:
    kinds = {"sliding": 3, "full": 1}
    found = AttentionLayerCounts(4, 8, 2, kinds, window=16, qk_norm=4, sinks=0, gates=0)
    assert found.describe_layer_counts() == (
        "4 layers (3 sliding, 1 full) of 8 heads, 4 for each key head, windows of 16 keys, "
        "normalised queries and keys in 4 layers"
    )


def test_what_is_not_said_is_none() -> None:
    found = count_attention_kinds({"model_type": "zebra", "sliding_window": True}, [])
    assert (found.layers, found.heads, found.queries_per_key_head, found.window, dict(found.kinds)) == (None, None, None, None, {})  # fmt: skip
