"""Attention that is not seen stands apart from attention that is, or all is refused; what is left out is named."""

import math
from typing import Any
from unittest import mock

import pytest
import small_checkpoints
import torch
from torch import Tensor, nn
from toy_blocks import WIDTH, Attention, Block, model_of, some_input

from attncli.capture import (
    AttentionSite,
    Strip,
    capture_attention,
    verify_capture,
    verify_captured_attention,
)
from attncli.capture.attention_capture import find_module_path_of_sink_parameter
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.capture.other_mixers.uncapturable_attention import (
    find_mixers_with_uncapturable_attention,
    refuse_uncapturable_attention,
)
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.errors import InputError

torch.set_num_threads(1)


class DoubledAttention(nn.Module):
    """Its rows sum to two: no product has ever met its softmax."""

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(x @ x.transpose(1, 2), dim=-1)
        return torch.mul(weights, 2.0) @ x


class StreamMixAttention(nn.Module):
    """A hyper-connection in small: it mixes the streams of each token, [batch, token, stream, feature]."""

    def forward(self, x: Tensor) -> Tensor:
        streams = torch.stack([x, 2.0 * x], dim=2)
        comb = torch.softmax(streams @ streams.transpose(2, 3), dim=-1) + 1e-6
        return (comb.unsqueeze(-1) * streams.unsqueeze(2)).sum(3).mean(2)


class DeformableAttention(nn.Module):
    """Weighs a few places of another's states."""

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        weights = torch.softmax(x[..., :2], dim=-1)
        return (weights.unsqueeze(-1) * memory[:, None, :2]).sum(2)


class Both(nn.Module):
    """Blocks that attend as ever, then something else."""

    def __init__(self, other: nn.Module, memory: bool = False) -> None:
        super().__init__()
        self.model = model_of(Block)
        self.other = nn.ModuleList([other])
        self.memory = memory

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.model(x)
        result: Tensor = self.other[0](y, x) if self.memory else self.other[0](y)
        return result


@pytest.mark.parametrize(
    ("other", "memory", "reaches"),
    [
        (DoubledAttention(), False, True),
        (StreamMixAttention(), False, False),
        (DeformableAttention(), True, None),
    ],
)
def test_what_is_not_seen_is_named_and_tried(
    other: nn.Module, memory: bool, reaches: bool | None
) -> None:
    found = verify_capture(Both(other, memory), some_input())
    assert [site.name for site in found.sites] == [
        f"model.layers.{layer}.attention" for layer in (0, 1)
    ]
    assert found.left_out == (("other.*", type(other).__name__, reaches),)
    said = found.left_out[0].describe_why_no_map()
    assert ("reaches no other token" in said) == (reaches is False)
    if reaches is not False:
        with pytest.raises(InputError, match="never weighs whole rows of values"):
            refuse_uncapturable_attention(found.left_out)


def maps(model: nn.Module, inputs: Any, **options: Any) -> dict[AttentionSite, Tensor]:
    seen: dict[AttentionSite, Tensor] = {}

    def observe(site: AttentionSite, strip: Strip) -> None:
        seen[site] = strip.weights[0].clone()

    with torch.no_grad(), capture_attention(model, observe, **options):
        model(**inputs)
    return seen


def test_it_is_left_out_only_where_that_was_proved() -> None:
    model, inputs = Both(DoubledAttention()), some_input()
    found = verify_capture(model, inputs)
    with pytest.raises(InputError, match="DoubledAttention takes a softmax that never weighs"):
        maps(model, inputs, proved=found.shapes)
    seen = maps(model, inputs, proved=found.shapes, apart=found.module_paths_of_separate_softmaxes)
    assert list(seen) == list(found.sites)
    alone = maps(model.model, inputs)
    assert all(map(torch.equal, seen.values(), alone.values()))


class Half(Block):
    """The first block attends as ever, the second in a way that is not seen."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Half.made += 1
        self.doubled = Half.made % 2 == 0
        if self.doubled:
            self.attention = DoubledAttention()  # type: ignore[assignment]


def test_no_attention_is_half_seen() -> None:
    """Modules at one place of several layers belong together, and so do one and what is inside it."""
    with pytest.raises(InputError, match="DoubledAttention takes a softmax that never weighs"):
        verify_capture(model_of(Half), some_input())

    class Around(Attention):
        def forward(self, x: Tensor) -> Tensor:
            weights = torch.softmax(x @ x.transpose(1, 2), dim=-1)
            return super().forward(weights.mul(2.0) @ x)

    class Block2(Block):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Around()

    with pytest.raises(InputError, match="Around takes a softmax that never weighs"):
        verify_capture(model_of(Block2), some_input())


def test_a_layer_with_unseen_attention_is_told_among_the_mixers() -> None:
    class Unseen(Block):
        def __init__(self) -> None:
            super().__init__()
            self.own_attention = DoubledAttention()

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x + self.own_attention(x))

    model, inputs = model_of(Unseen), some_input()
    found = verify_capture(model, inputs)
    told = find_mixers_with_uncapturable_attention(
        find_block_stacks(model, inputs), found.left_out, (), model
    )
    assert [(each.layer, each.kind, each.paths) for each in told] == [
        (layer, "unseen attention", (f"layers.{layer}.own_attention",)) for layer in (0, 1)
    ]
    assert (
        find_mixers_with_uncapturable_attention(
            find_block_stacks(model, inputs), found.left_out, told, model
        )
        == ()
    )


class MaskedAfter(Attention):
    """As CPM-Ant and FastSpeech 2: what the mask hides is made zero once more."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (linear(x) for linear in self.maps[:3])
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(WIDTH)).masked_fill(later, -50.0)
        weights = torch.softmax(scores, dim=-1)
        zero = torch.zeros((), dtype=x.dtype)
        self.last = torch.masked_fill(weights, later, zero)
        out: Tensor = self.maps[3](self.last @ v)
        return out


def test_weights_that_are_made_zero_after_the_softmax_are_seen_so() -> None:
    class Masked(Block):
        def __init__(self) -> None:
            super().__init__()
            self.attention = MaskedAfter()

    model, inputs = model_of(Masked), some_input()
    found = verify_capture(model, inputs)
    assert found.causal == set(found.sites)
    for site, seen in maps(model, inputs).items():
        assert torch.equal(seen[0], model.get_submodule(site.name).last[0])


def test_a_weight_that_is_set_to_something_else_is_no_mask() -> None:
    class Tilted(Attention):
        def forward(self, x: Tensor) -> Tensor:
            weights = torch.softmax(x @ x.transpose(1, 2), dim=-1)
            first = torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool)
            return weights.masked_fill(first, 0.5) @ x

    class Block3(Block):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Tilted()

    with pytest.raises(InputError, match="Tilted takes a softmax that never weighs"):
        verify_capture(model_of(Block3), some_input())


class Idle(Attention):
    """As SAM 2: a softmax that nothing is made of, then the attention."""

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(x @ x.transpose(1, 2), dim=-1).to(x.dtype).transpose(1, 2)
        del weights
        return super().forward(x)


class Hidden(Attention):
    """What becomes of the softmax is done where torch's functions are not seen."""

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.softmax(x @ x.transpose(1, 2), dim=-1)
        with torch._C.DisableTorchFunction():
            return weights @ x


class Kept(Idle):
    """The same, given back: nobody knows what becomes of it."""

    def forward(self, x: Tensor) -> Tensor:
        self.weights = torch.softmax(x @ x.transpose(1, 2), dim=-1)
        return super().forward(x)


def test_a_softmax_that_nothing_is_made_of_is_none() -> None:
    class Block4(Block):
        def __init__(self, kind: type[Attention]) -> None:
            super().__init__()
            self.attention = kind()

    assert len(verify_capture(model_of(lambda: Block4(Idle)), some_input()).sites) == 2
    with pytest.raises(InputError, match="Hidden takes a softmax that never weighs"):
        verify_capture(model_of(lambda: Block4(Hidden)), some_input())
    with pytest.raises(InputError, match="Kept takes a softmax that never weighs"):
        verify_capture(model_of(lambda: Block4(Kept)), some_input())


@pytest.mark.parametrize("scaled", [False, True])
def test_what_is_made_by_keyword_is_made_of_it(scaled: bool) -> None:
    """A map that nobody was seen to use would be none, and its attention missed."""

    class ByKeyword(Attention):
        def forward(self, x: Tensor) -> Tensor:
            weights = torch.softmax(x @ x.transpose(1, 2), dim=-1)
            if scaled:
                weights = torch.mul(input=weights, other=2.0)
            return torch.matmul(input=weights, other=x)

    class Both2(Block):
        def __init__(self) -> None:
            super().__init__()
            self.attention = ByKeyword()

    model = nn.Sequential(model_of(Block), model_of(Both2))
    model.forward = lambda x: model[1](model[0](x))  # type: ignore[method-assign]
    found = verify_capture(model, some_input())
    assert len(found.sites) == (2 if scaled else 4)
    assert [each.kind for each in found.left_out] == ["ByKeyword"] * scaled


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_map_that_is_changed_in_place_is_not_the_one_before(dtype: torch.dtype) -> None:
    """In half precision what is held is a copy; else it is the very tensor, whose rows no longer sum to one."""

    class InPlace(Attention):
        def forward(self, x: Tensor) -> Tensor:
            weights = torch.softmax(input=x @ x.transpose(1, 2), dim=-1)
            weights *= 2.0
            return weights @ x

    class Block5(Block):
        def __init__(self) -> None:
            super().__init__()
            self.attention = InPlace()

    model = model_of(Block5).to(dtype)
    with pytest.raises(InputError, match=r"rows sum to 2|never weighs whole rows"):
        verify_capture(model, {"x": some_input()["x"].to(dtype)})


def test_models_that_draw_are_proved_on_the_same_draws() -> None:
    class Drawing(Both):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x + torch.randn_like(x))

    model = Drawing(nn.Identity())
    before = torch.random.get_rng_state()
    assert verify_capture(model, some_input()).difference < 1e-6
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("parameter", "holder"),
    [
        ("layers.0.self_attn.sinks", "layers.0.self_attn"),
        ("layers.0.self_attn.sink_proj.weight", "layers.0.self_attn"),
        ("sinks", ""),
    ],
)
def test_sinks_may_come_from_a_projection(parameter: str, holder: str) -> None:
    assert find_module_path_of_sink_parameter(parameter) == holder


@pytest.mark.parametrize(
    ("more", "leaks"), [("none", False), ("before", False), ("behind", False), ("ahead", True)]
)
def test_keys_beside_the_tokens_are_no_look_ahead(more: str, leaks: bool) -> None:
    """A prefix before the tokens, compressed tokens behind them; but no weight on a later token."""
    tokens = 5
    weights = torch.ones(1, 1, tokens, tokens).tril()
    if more == "before":
        weights = torch.cat([torch.ones(1, 1, tokens, 2), weights], dim=-1)
    elif more in ("behind", "ahead"):
        weights = torch.cat([weights, torch.ones(1, 1, tokens, 2)], dim=-1)
    if more == "ahead":
        weights[..., 1, 3] = 1.0
    site = AttentionSite("layers", 0, "self", "full", "layers.0")
    evidence = verify_captured_attention.CaptureEvidence()
    for row in range(tokens):
        part = weights[..., row : row + 1, :]
        evidence.record_evidence_of_map_rows(
            site, Strip(part, row, 0, tokens, weights.shape[-1], None)
        )
    assert all(evidence.ahead[site]) == leaks
    stream, model = mock.Mock(captured=[site], on_interface={site.name}, masked=set()), nn.Module()
    layer = nn.Module()
    layer.is_causal = True
    model.layers = nn.ModuleList([layer])
    if leaks:
        with pytest.raises(InputError, match="looks ahead"):
            verify_captured_attention.refuse_weight_on_future_keys(model, stream, evidence)
    else:
        verify_captured_attention.refuse_weight_on_future_keys(model, stream, evidence)


def test_eager_attention_that_does_not_run_in_a_precision_is_named() -> None:
    """GPT-2's own eager code, where its config asks for scores in float32, takes nothing else."""
    model = small_checkpoints.model_of("GPT2LMHeadModel", reorder_and_upcast_attn=True)
    inputs = {"input_ids": torch.tensor([[3, 1, 4, 1, 5]])}
    verify_capture(model, inputs)
    with (
        force_float64(),
        pytest.raises(InputError, match=r"eager attention in float64 .*upcasting"),
    ):
        verify_capture(model.double(), inputs)


def test_eager_attention_that_alone_gives_no_numbers_is_named() -> None:
    """Nemotron's streaming encoder takes a mask of numbers for one of truths there."""
    number, nothing = torch.ones(2), torch.tensor([1.0, math.nan])
    with pytest.raises(InputError, match="Linear gives NaN with its eager attention"):
        verify_captured_attention.refuse_broken_eager_attention(
            nn.Linear(1, 1), [number], [number, nothing]
        )
    verify_captured_attention.refuse_broken_eager_attention(
        nn.Linear(1, 1), [nothing], [nothing]
    )  # not what eager attention does
    verify_captured_attention.refuse_broken_eager_attention(nn.Linear(1, 1), [number], [number])
