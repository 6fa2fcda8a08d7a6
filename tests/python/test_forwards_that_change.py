"""A forward that changes its module: hooks, buffers, angles, weights, counters. What was changed by looking is put back."""

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

import attncli as attn
from attncli.models.random.random_models import build_model

IDS = torch.arange(10)[None]
QUESTIONS: dict[str, Callable[[nn.Module, dict[str, Tensor]], object]] = {
    "inspect_model": lambda model, given: attn.inspect_model(model, inputs=given, metric="sink"),
    "monitor": lambda model, given: attn.Monitor(model, every=1, probe=given, metrics="sink"),
}
each_question = pytest.mark.parametrize("question", QUESTIONS)


class LastLayers(nn.Module):
    """Asks for hidden states in its forward, for which transformers hangs hooks on its modules in the first pass."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = BertModel(
            BertConfig(
                hidden_size=16,
                num_hidden_layers=4,
                num_attention_heads=2,
                intermediate_size=24,
                vocab_size=40,
            )
        )

    def forward(self, ids: Tensor) -> Tensor:
        states = self.bert(ids, output_hidden_states=True).hidden_states
        return torch.cat(states[-3:], dim=-1)


class Counting(nn.Module):
    """Counts, keeps, scales rows of its embedding, and has a config that is a table."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 16, max_norm=1.0)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.register_buffer("mean", torch.zeros(16))
        self.calls, self.config = 0, {"width": 16}
        self.kept: list[Tensor] = []
        self.seen: set[int] = set()

    def forward(self, ids: Tensor) -> Tensor:
        self.calls += 1
        self.seen.add(ids.shape[1])
        self.config["tokens"] = ids.shape[1]
        states = self.embedding(ids)
        self.mean += states.mean(dim=(0, 1)).detach()
        self.kept.append(states)
        attended: Tensor = self.attention(states, states, states)[0]
        return attended


def angles(kind: str) -> LlamaModel:
    """Of rotary positions that are computed anew where a text is longer or shorter."""
    more = {"long_factor": [2.0] * 4, "short_factor": [1.0] * 4} if kind == "longrope" else {}
    turned = {"rope_type": kind, "factor": 2.0, "rope_theta": 10000.0, **more}
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=16,
        initializer_range=0.3,
    )
    config.rope_parameters = turned | {"original_max_position_embeddings": 16}
    return LlamaModel(config).eval()


def state_of(model: nn.Module) -> list[Any]:
    """What its forward might have changed."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    tensors = {name: each.numpy(force=True).tobytes() for name, each in [*model.named_parameters(), *model.named_buffers()]}  # fmt: skip
    return [
        tensors,
        [[[*getattr(module, name).values()] for name in hooks] for module in model.modules()],
        [sorted(vars(module)) for module in model.modules()],
    ]


@each_question
def test_hooks_that_a_first_forward_hangs_are_gone(question: str) -> None:
    """Else the next one would hang them a second time, and every hidden state would come twice."""
    torch.manual_seed(0)
    model = LastLayers().eval()
    twin = copy.deepcopy(model)
    before = state_of(model)
    QUESTIONS[question](model, {"ids": IDS})
    assert state_of(model) == before
    with torch.no_grad():
        assert torch.equal(model(IDS), twin(IDS))


@each_question
def test_what_a_forward_counts_keeps_or_scales_is_as_it_was(question: str) -> None:
    torch.manual_seed(0)
    model = Counting()
    before = state_of(model)
    QUESTIONS[question](model, {"ids": IDS})
    assert state_of(model) == before
    assert (model.calls, model.kept, model.seen, model.config) == (0, [], set(), {"width": 16})


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
@pytest.mark.parametrize(("first", "asked"), [(40, 8), (8, 40)])
@each_question
def test_angles_are_those_of_the_callers_last_text(
    question: str, kind: str, first: int, asked: int
) -> None:
    torch.manual_seed(0)
    model = angles(kind)
    text = (torch.arange(first) % 40)[None]
    with torch.no_grad():
        before = model(text).last_hidden_state
        refused = question == "inspect_model" and asked > 16  # the model has no positions for it
        with pytest.raises(attn.AttnError) if refused else contextlib.nullcontext():
            QUESTIONS[question](model, {"input_ids": (torch.arange(asked) % 40)[None]})
        assert torch.equal(model(text).last_hidden_state, before)


def test_a_backward_pass_through_a_forward_of_before_is_still_possible() -> None:
    """Nothing was written to that did not change."""
    torch.manual_seed(0)
    model = angles("default")
    loss = model(IDS).last_hidden_state.square().mean()
    attn.inspect_model(model, inputs={"input_ids": IDS}, metric="sink")
    loss.backward()
    assert all(each.grad is not None for each in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pe_audio", "xcodec", "seamless_m4t"])
def test_types_that_change_themselves_as_they_run_are_as_they_were(kind: str) -> None:
    """Found among all types of transformers: hooks of a first forward, positions of the longest text."""
    model = build_model(kind, {"tiny": 1}, 0)
    before = state_of(model)
    attn.inspect_model(model, random_tokens=8, metric="sink")
    assert state_of(model) == before
