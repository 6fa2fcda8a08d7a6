"""Attention handed on in strips: equal to hand-written maps, whatever the strip; nothing passes that is not the model's."""

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from oracles.forwards import ORACLES
from oracles.forwards.tiny_models import TINY
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

import attncli as attn
from attncli.capture import AttentionSite, Strip, capture_attention, verify_capture
from attncli.capture.softmax_attention import rowwise_masks as masks_module
from attncli.capture.softmax_attention.attention_interface import (
    LastSoftmax,
    promote_half_to_float32,
)
from attncli.capture.softmax_attention.rowwise_masks import (
    RowwiseMask,
    find_keys_shown_by_mask,
    make_rowwise_mask,
)
from attncli.capture.softmax_attention.softmax_and_sdpa_calls import find_unmasked_keys
from attncli.errors import InputError
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)

ONE_ROW, THREE_ROWS, EVERYTHING = 1, 4 * 3 * 3 * 8 * 8, 2**25
"""Bytes for strips of a tiny model."""


def whole_maps(model: Any, inputs: Any, memory: int = EVERYTHING) -> dict[AttentionSite, Tensor]:
    """The maps [head, query, key], put together from their strips."""
    strips: dict[AttentionSite, list[Tensor]] = defaultdict(list)

    def observe(site: AttentionSite, strip: Strip) -> None:
        full = strip.weights.new_zeros((*strip.weights.shape[:3], strip.keys))
        full[..., strip.first_key : strip.first_key + strip.weights.shape[3]] = strip.weights
        assert strip.first_query == sum(part.shape[2] for part in strips[site])
        assert strip.visible is None or strip.visible.shape[-2:] == strip.weights.shape[-2:]
        strips[site].append(full)

    with torch.no_grad(), capture_attention(model, observe, memory):
        model(**inputs)
    return {site: torch.cat(parts, dim=2)[0] for site, parts in strips.items()}


def as_oracle_has_them(maps: dict[AttentionSite, Tensor]) -> dict[str, list[Tensor]]:
    """By the oracles' names of stacks, in layer order."""
    found: dict[str, list[tuple[int, Tensor]]] = defaultdict(list)
    both = len({site.stack for site in maps}) > 1
    for site, weights in maps.items():
        if ".head." in site.name:  # SigLIP's is in no stack
            continue
        side = "encoder" if "encoder" in site.stack else "decoder"
        side = site.stack.removesuffix(".layers") if "_model.encoder" in site.stack else side
        name = "cross" if site.kind == "cross" else side if both else "layers"
        found[name].append((site.layer, weights))
    return {
        name: [weights for _, weights in sorted(rows, key=lambda row: row[0])]
        for name, rows in found.items()
    }


@pytest.mark.parametrize("name", [name for name in TINY if name != "xlnet-two-streams"])
@pytest.mark.parametrize("memory", [ONE_ROW, THREE_ROWS, EVERYTHING])
def test_maps_equal_the_hand_written_ones(name: str, memory: int) -> None:
    """To 1e-6: the models' own softmax may be in float32."""
    model, inputs = TINY[name]()
    expected = ORACLES[model.config.model_type].attention_maps(model, inputs)
    found = as_oracle_has_them(whole_maps(model, inputs, memory))
    assert sum(map(len, found.values())) == sum(map(len, expected.values()))
    for stack, maps in found.items():
        wanted = expected.get(stack) or expected[next(iter(expected))]
        for ours, theirs in zip(maps, wanted, strict=True):
            assert (ours - torch.from_numpy(theirs)).abs().max() < 1e-6


@pytest.mark.parametrize("name", TINY)
def test_every_tiny_model_is_proved(name: str) -> None:
    model, inputs = TINY[name]()
    if name == "xlnet-two-streams":
        model, inputs = (
            model.float(),
            {
                key: value.float() if value.is_floating_point() else value
                for key, value in inputs.items()
            },
        )
    proof = verify_capture(model, inputs)
    assert proof.difference < 1e-6 if name != "xlnet-two-streams" else 1e-4
    causal_types = ("gpt", "llama", "mistral", "qwen", "gemma")
    if model.config.model_type.startswith(causal_types):
        assert set(proof.sites) == proof.causal
    elif not model.config.is_encoder_decoder:
        assert not proof.causal


@pytest.mark.parametrize("kind", ["layoutlm", "markuplm", "switch_transformers", "mpnet", "t5"])
@pytest.mark.parametrize("memory", [ONE_ROW, EVERYTHING])
def test_one_row_of_a_mask_is_for_all_queries(kind: str, memory: int) -> None:
    """Some models give a mask of [batch, 1, 1, key], also where it hides nothing."""
    model = build_model(kind, {"tiny": 1}, 0)
    given = make_example_inputs(model, 12)
    maps = whole_maps(model, given, memory)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        outputs = model(**given, output_attentions=True)
    theirs = outputs.get("attentions") or outputs.encoder_attentions
    ours = [
        maps[site]
        for site in sorted(maps, key=str)
        if site.kind == "self" and "decoder" not in site.stack
    ]
    assert len(ours) == len(theirs)
    for own, wanted in zip(ours, theirs, strict=True):
        assert (own - wanted[0]).abs().max() < 1e-6


def test_a_share_of_one_row_of_a_mask_is_no_more_than_one() -> None:
    report = attn.inspect_model(
        "random:layoutlm?tiny", random_tokens=12, metric="sink,sink_max,previous_token"
    )
    shares = [
        row.value or 0.0
        for row in report.rows
        if row.metric in ("sink", "sink_max") and row.head is not None
    ]
    assert 0.0 < max(shares) <= 1.0


def test_strips_of_bfloat16_models_are_float32() -> None:
    """Rows of bfloat16 maps are off by 2e-3; these sum to one."""
    for name in ("bert", "llama", "gpt_neo"):
        model, inputs = TINY[name]()
        for weights in whole_maps(model.to(torch.bfloat16), inputs).values():
            assert weights.dtype == torch.float32
            assert (weights.sum(-1) - 1.0).abs().max() < 1e-6


def test_a_hybrid_keeps_its_true_layer_indices() -> None:
    torch.manual_seed(0)
    config = hf.Qwen3NextConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=24,
        moe_intermediate_size=8,
        shared_expert_intermediate_size=8,
        num_experts=2,
        num_experts_per_tok=1,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    )
    model = hf.Qwen3NextModel(config).eval()
    maps = whole_maps(model, {"input_ids": torch.arange(5, 14)[None]})
    assert [(site.layer, site.span) for site in maps] == [(3, "full")]


def test_shared_layers_are_counted_as_they_are_run() -> None:
    model, inputs = TINY["albert"]()
    layers = [site.layer for site in whole_maps(model, inputs)]
    assert layers == list(range(model.config.num_hidden_layers))


def strips_of(model: Any, inputs: Any) -> list[Strip]:
    found: list[Strip] = []
    with (
        torch.no_grad(),
        capture_attention(model, lambda site, strip: found.append(strip), THREE_ROWS),
    ):
        model(**inputs)
    return found


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma3", "t5"])
def test_scores_are_what_the_softmax_made_the_weights_of(name: str) -> None:
    model, inputs = TINY[name]()
    for strip in strips_of(model.float(), inputs):
        assert strip.scores is not None
        assert torch.equal(strip.scores.softmax(-1), strip.weights)


def test_scores_are_not_believed_where_the_weights_were_changed_after_the_softmax() -> None:
    scores = torch.randn(1, 2, 4, 4)
    with LastSoftmax() as softmax:
        weights = torch.nn.functional.softmax(scores, dim=-1)
    assert torch.equal(softmax.find_scores_of_weights(weights), scores)  # type: ignore[arg-type]
    assert softmax.find_scores_of_weights(weights[..., 1:]) is None
    assert softmax.find_scores_of_weights(weights.clone()) is None
    assert softmax.find_scores_of_weights(weights.transpose(2, 3)) is None
    weights.mul_(0.5)
    assert softmax.find_scores_of_weights(weights) is None


def test_scores_are_not_believed_where_they_are_rounder_than_the_weights() -> None:
    scores = torch.randn(1, 2, 3, 4, dtype=torch.bfloat16)
    with LastSoftmax() as softmax:
        weights = scores.softmax(dim=-1, dtype=torch.float32)
    assert softmax.find_scores_of_weights(weights) is None


@pytest.mark.parametrize("hidden", [torch.finfo(torch.float32).min, -torch.inf])
def test_a_key_is_visible_that_any_head_sees_and_to_a_row_without_any_all_are(
    hidden: float,
) -> None:
    """Eager attention spreads evenly over the keys where every one is hidden."""
    mask = torch.full((1, 2, 3, 4), hidden)
    mask[0, 0, 0, 1] = mask[0, 1, 0, 2] = mask[0, :, 2, 3] = 0.0
    visible = find_keys_shown_by_mask(mask, 4)
    assert visible is not None
    assert visible[0, 0].int().tolist() == [[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 1]]
    assert find_keys_shown_by_mask(torch.zeros(1, 1, 3, 4), 4) is not None
    assert find_keys_shown_by_mask(None, 4) is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_made_precise(dtype: torch.dtype) -> None:
    assert promote_half_to_float32(torch.ones(2, dtype=dtype)).dtype == torch.float32
    assert promote_half_to_float32(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


def test_maps_that_come_once_more_are_the_same() -> None:
    model, inputs = TINY["llama"]()
    found: dict[int, list[Tensor]] = defaultdict(list)

    def observe(site: AttentionSite, strip: Strip) -> bool:
        found[site.layer].append(strip.weights)
        last = strip.first_query + strip.weights.shape[2] == strip.queries
        return last and len(found[site.layer]) < 6

    with torch.no_grad(), capture_attention(model, observe, EVERYTHING):
        output = model(**inputs)[0]
    with torch.no_grad(), capture_attention(model, lambda site, strip: None, EVERYTHING):
        assert torch.equal(output, model(**inputs)[0])
    assert all(len(maps) == 6 for maps in found.values())
    assert all(torch.equal(each, maps[0]) for maps in found.values() for each in maps)


def test_learned_sinks_leave_rows_below_one() -> None:
    torch.manual_seed(0)
    config = hf.GptOssConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=24,
        num_local_experts=2,
        num_experts_per_tok=1,
        sliding_window=4,
    )
    model = hf.GptOssModel(config).eval()
    maps = whole_maps(model, {"input_ids": torch.arange(5, 14)[None]})
    assert [site.span for site in maps] == ["sliding", "full"]
    assert all(0.1 < weights.sum(-1).min() < 0.95 for weights in maps.values())
    sliding = next(iter(maps.values()))
    assert (sliding[:, 6, :3] == 0).all()  # a window of 4 does not see token 2 from token 6


def test_everything_is_as_before_afterwards() -> None:
    """Also when the forward fails: the registries, the configs, the hooks."""
    model, _ = TINY["bert"]()
    implementation = model.config._attn_implementation
    with pytest.raises(KeyError), capture_attention(model, lambda *_: None):
        raise KeyError
    assert "eager" not in AttentionInterface._global_mapping
    assert AttentionMaskInterface._global_mapping["eager"] is eager_mask
    assert model.config._attn_implementation == implementation
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


# --- masks made row by row


@pytest.fixture
def rowwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks_module, "WHOLE_BELOW", 0)


@pytest.mark.usefixtures("rowwise")
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "mistral", "gemma3", "t5", "whisper"])
def test_rowwise_masks_hide_what_whole_ones_hide(name: str) -> None:
    model, inputs = TINY[next(known for known in TINY if known.startswith(name))]()
    expected = ORACLES[model.config.model_type].attention_maps(model, inputs)
    found = as_oracle_has_them(whole_maps(model, inputs, THREE_ROWS))
    for stack, maps in found.items():
        for ours, theirs in zip(maps, expected[stack], strict=True):
            assert (ours - torch.from_numpy(theirs)).abs().max() < 1e-6


@pytest.mark.usefixtures("rowwise")
def test_a_rowwise_mask_is_never_made_whole_by_models_on_the_interface(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(self: RowwiseMask) -> Tensor:
        raise AssertionError("a token × token mask was made")

    monkeypatch.setattr(RowwiseMask, "materialise_whole_mask", never)
    for name in ("gpt2", "llama", "mistral"):
        model, inputs = TINY[name]()
        assert whole_maps(model, inputs, ONE_ROW)


@pytest.mark.usefixtures("rowwise")
def test_what_a_model_writes_into_its_mask_is_kept() -> None:
    mask = make_rowwise_mask(1, 4, 4, dtype=torch.float32)
    assert isinstance(mask, RowwiseMask)
    view = mask[:, :, :, :3]
    view[0, 0, 1] = 7.0
    assert (mask.compute_mask_rows(1, 2)[0, 0, 0, :3] == 7.0).all()
    mask.mul_(2.0)
    assert (mask.compute_mask_rows(1, 2)[0, 0, 0, :3] == 14.0).all()


# --- captures that are wrong are refused


def broken(model: Any, change: Callable[[Tensor], Tensor]) -> None:
    """The model's last attention output is changed, but only under capture."""
    module = next(m for m in model.modules() if type(m).__name__ == "BertSelfAttention")
    usual = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        output, weights = usual(*args, **kwargs)
        captured = "eager" in AttentionInterface._global_mapping
        return (change(output) if captured else output), weights

    module.forward = forward


def test_an_output_that_differs_under_capture_is_refused() -> None:
    model, inputs = TINY["bert"]()
    broken(model, lambda output: output * 1.001)
    with pytest.raises(InputError, match="output under capture differs"):
        verify_capture(model, inputs)


def test_causal_attention_without_its_mask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    model, inputs = TINY["gpt2"]()
    monkeypatch.setattr(
        "attncli.capture.attention_capture.make_rowwise_mask", lambda *_, **__: None
    )
    with pytest.raises(InputError, match=r"looks ahead|output under capture differs"):
        verify_capture(model, inputs)


def test_not_a_number_is_named_with_its_layer() -> None:
    model, inputs = TINY["bert"]()
    model.encoder.layer[1].attention.self.query.bias.data[0] = float("nan")
    with pytest.raises(InputError, match=r"layer 1 \(encoder.layer.1.attention.self\)"):
        whole_maps(model, inputs)


class Doubled(nn.Module):
    """Attention whose rows sum to two."""

    def forward(self, hidden: Tensor) -> Tensor:
        weights = torch.softmax(hidden @ hidden.transpose(1, 2), dim=-1)
        return torch.mul(weights, 2.0) @ hidden


class Chunked(nn.Module):
    """A softmax over windows of keys, padded before it weighs values."""

    def forward(self, hidden: Tensor) -> Tensor:
        weights = torch.softmax(hidden @ hidden.transpose(1, 2)[..., :2], dim=-1)
        wide = nn.functional.pad(weights, (0, hidden.shape[1] - 2))
        return wide @ hidden


class Router(nn.Module):
    """A softmax that chooses and weighs no keys."""

    def forward(self, hidden: Tensor) -> Tensor:
        chosen = torch.softmax(hidden, dim=-1).topk(2).values
        return hidden * chosen.sum(-1, keepdim=True)


class Nystrom(nn.Module):
    """Low-rank attention over two landmarks, as Nyströmformer's beyond its shortest texts."""

    def forward(self, hidden: Tensor) -> Tensor:
        landmarks = hidden[:, :2]
        left = torch.softmax(hidden @ landmarks.transpose(1, 2), dim=-1)
        right = torch.softmax(landmarks @ hidden.transpose(1, 2), dim=-1)
        return left @ (right @ hidden)


class Model(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.attention(hidden)
        return result


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Doubled(), "never weighs whole rows"),
        (Chunked(), "never weighs whole rows"),
        (Nystrom(), "several softmaxes"),
        (Router(), "never weighs whole rows|no attention was seen"),
    ],
)
def test_softmax_that_is_no_attention_over_keys_is_refused(module: nn.Module, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        verify_capture(Model(module), {"hidden": torch.randn(1, 5, 4)})


def test_sdpa_and_multi_head_modules_are_seen_without_the_interface() -> None:
    """Equal to torch's own weights, with a causal flag, a mask, grouped queries; and for nn.MultiheadAttention."""

    class Attention(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, **how: Any) -> Tensor:
            return nn.functional.scaled_dot_product_attention(q, k, v, **how)

    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, 4, 6, 8, generator=generator)
    k, v = (torch.randn(1, 2, 6, 8, generator=generator) for _ in range(2))
    hidden = torch.rand(6, 6, generator=generator) < 0.3
    hidden.fill_diagonal_(False)
    plain = nn.functional.scaled_dot_product_attention
    for how in (
        {"is_causal": True, "enable_gqa": True},
        {"attn_mask": ~hidden, "enable_gqa": True},
        {"attn_mask": hidden * -3.0, "enable_gqa": True, "scale": 0.7},
    ):
        model, output = Model(Attention()), plain(q, k, v, **how)
        weights = maps_of_call(model, lambda m, how=how: m.attention(q, k, v, **how), output)
        assert torch.allclose(weights @ v.repeat_interleave(2, 1), output, atol=1e-6)

    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    tokens = torch.randn(1, 5, 8, generator=generator)
    output, expected = attention(tokens, tokens, tokens, average_attn_weights=False)
    weights = maps_of_call(
        Model(attention),
        lambda m: m.attention(tokens, tokens, tokens, need_weights=False)[0],
        output,
    )
    assert torch.allclose(weights, expected, atol=1e-6)


def maps_of_call(model: Model, call: Callable[[Any], Tensor], expected: Tensor) -> Tensor:
    """The map of one attention, whose output must be the expected one."""
    maps: list[Tensor] = []
    with (
        torch.no_grad(),
        capture_attention(model, lambda _, strip: maps.append(strip.weights), ONE_ROW),
    ):
        assert torch.allclose(call(model), expected, atol=1e-6)
    return torch.cat(maps, dim=2)


@pytest.mark.slow
def test_scores_of_any_size_are_told_from_masks() -> None:
    """What masks add is known by its size, but not beside scores that are as large themselves."""
    scores = torch.tensor([[3.0, -2.0, 900.0], [0.5, 7.0, -400.0], [1.0, 2.0, 3.0]])[None]
    for hiding in (-1e4, -1e9, torch.finfo(torch.float32).min, -math.inf):
        found = find_unmasked_keys(scores + torch.full((3, 3), hiding).triu(1))
        assert found is not None
        assert found[0, 0].equal(torch.ones(3, 3).tril().bool())
    assert find_unmasked_keys(scores) is None
    for size in (1e4, 1e9, 1e19):
        assert find_unmasked_keys(scores * size) is None
        hidden = (scores * size).masked_fill(torch.ones(3, 3).triu(1).bool(), -math.inf)
        found = find_unmasked_keys(hidden)
        assert found is not None
        assert found[0, 0].equal(torch.ones(3, 3).tril().bool())
