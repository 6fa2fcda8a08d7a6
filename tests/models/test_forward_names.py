"""A forward that hands on whatever comes reads what the one above it names."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaModel

import attncli as attn
from attncli.models.model_classes import find_forward_signature, select_named_parameters

CONFIG = LlamaConfig(
    vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24
)


class HandsOn(LlamaModel):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, **kwargs)


def timed() -> LlamaModel:
    """Its forward is wrapped, and nothing says of what."""
    model = LlamaModel(CONFIG)
    forward = model.forward
    model.forward = lambda *args, **kwargs: forward(*args, **kwargs)  # type: ignore[method-assign]
    return model


MADE = {"a subclass": lambda: HandsOn(CONFIG), "a wrapped forward": timed}
ASKED = {
    "given": lambda model: attn.inspect_model(model, inputs={"input_ids": torch.arange(8)[None]}),
    "by place": lambda model: attn.inspect_model(model, inputs=torch.arange(8)[None]),
    "ids": lambda model: attn.inspect_model(model, token_ids=[3, 1, 4, 1, 5]),
    "random": lambda model: attn.rank_collapse(model, random_tokens=6, variants="SAN"),
    "paths": lambda model: attn.paths(model, random_tokens=6),
}


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("made", MADE)
def test_it_is_measured_as_the_model_that_it_is(made: str, asked: str) -> None:
    plain, other = LlamaModel(CONFIG), MADE[made]()
    other.load_state_dict(plain.state_dict())
    assert ASKED[asked](other).rows == ASKED[asked](plain).rows


class Reads(nn.Module):
    """Attention of its own, over what it is given under one name."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        attended: torch.Tensor = self.attention(states, states, states)[0]
        return attended


class ReadsOther(Reads):
    def forward(self, **batch: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return super().forward(batch["others"])


def test_names_of_ones_own_are_ones_own() -> None:
    torch.manual_seed(0)
    plain, other = Reads(), ReadsOther()
    other.load_state_dict(plain.state_dict())
    states = torch.randn(1, 7, 16)
    found = [
        attn.inspect_model(model, inputs={name: states}, metric="sink").rows
        for model, name in ((plain, "states"), (other, "others"))
    ]
    assert found[0] == found[1]


def test_where_nobody_names_anything_there_are_no_names() -> None:
    class Any_(nn.Module):
        def forward(self, *args: Any) -> Any:
            return args

    assert not select_named_parameters(find_forward_signature(Any_()))
    assert [*select_named_parameters(find_forward_signature(nn.Linear(2, 2)))] == ["input"]
