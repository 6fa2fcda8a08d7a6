"""What a monitor is given: values of any library, or one sentence that names the argument."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import PreTrainedModel

import attncli as attn
from attncli.errors import InputError, UsageError
from attncli.models.random.random_models import build_model
from attncli.training import AttnCallback

IDS = [5, 3, 8]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return build_model("llama", {"tiny": 1}, 0)


def first(model: PreTrainedModel, **given: Any) -> dict[str, float]:
    return attn.Monitor(model, metrics="sink", **{"probe": [IDS], **given}).first


@pytest.mark.parametrize(
    "probe",
    [
        IDS,
        tuple(IDS),
        np.array(IDS),
        np.array([IDS]),
        torch.tensor(IDS),
        torch.tensor([IDS]),
        (each for each in IDS),
        {"input_ids": IDS},
        {"input_ids": np.array([IDS])},
    ],
    ids=lambda probe: f"{type(probe).__name__}-{np.ndim(probe) if not isinstance(probe, dict) else 'named'}",
)  # fmt: skip
def test_ids_come_in_any_form(model: PreTrainedModel, probe: Any) -> None:
    assert first(model, probe=probe) == first(model)


@pytest.mark.parametrize(
    "probe",
    [b"hi", 3, {}, {"input_ids": "abc"}, [], [[]], [1.5, 2], ["a", 3], [True, False], torch.ones(1, 3)],
    ids=str,
)  # fmt: skip
def test_what_is_no_probe_is_named(model: PreTrainedModel, probe: Any) -> None:
    with pytest.raises(UsageError, match="`probe` must be texts, token ids, or a mapping"):
        first(model, probe=probe)


def test_texts_come_in_any_form(model: PreTrainedModel) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, "[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    texts = ["a b a", "b a b"]
    forms = [texts, tuple(texts), np.array(texts), pd.Series(texts), (each for each in texts)]
    found = [first(model, probe=probe, tokenizer=tokenizer) for probe in forms]
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("every", "5", "a whole number"),
        ("every", True, "a whole number"),
        ("every", 2.5, "a whole number"),
        ("every", 0, "at least 1"),
        ("tokens", True, "a whole number"),
        ("tokens", 0, "at least 1"),
        ("step", "a", "a whole number"),
        ("step", -1, "at least 0"),
        ("metrics", 3, "a list of texts"),
        ("metrics", ["sink", None], "a list of texts"),
        ("stop_if", ["sink > 1", 3], "a list of texts"),
        ("warn_if", b"x", "a list of texts"),
        ("folder", 3, "a path"),
        ("measure", 3, "a text"),
        ("each_layer", 1, "True or False"),
    ],
)
def test_what_is_no_value_of_an_argument_is_named(
    model: PreTrainedModel, name: str, value: Any, said: str
) -> None:
    with pytest.raises(UsageError, match=f"`{name}` must be .*{said}"):
        attn.Monitor(model, **{"probe": [IDS], name: value})
    if name != "step":
        with pytest.raises(UsageError, match=f"`{name}` must be .*{said}"):
            attn.training.AttnCallback(**{name: value})


def test_none_is_the_default_of_any(model: PreTrainedModel) -> None:
    names = ("every", "stop_if", "warn_if", "measure", "folder", "step", "tokens", "each_layer")
    assert first(model, **dict.fromkeys(names)) == first(model)


def test_conditions_that_can_be_gone_through_once_are_kept(model: PreTrainedModel) -> None:
    """The callback makes its monitor long after it was made itself."""
    callback = attn.training.AttnCallback(stop_if=(each for each in ["mean(sink) > 2"]))
    assert callback.monitor_settings["stop_if"] == ["mean(sink) > 2"]


class ByHand(torch.nn.Module):
    """Attention of one's own in a list of blocks."""

    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(30, 16)
        self.blocks = torch.nn.ModuleList(Attending(attend) for _ in range(2))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.embedding(ids)
        for block in self.blocks:
            states = states + block(states)
        return states


class Attending(torch.nn.Module):
    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.attend, self.projection = attend, torch.nn.Linear(16, 48)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        texts, tokens, _ = states.shape
        heads = self.projection(states).view(texts, tokens, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return self.attend(*heads).transpose(1, 2).reshape(texts, tokens, 16)


def softmax_by_hand(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    hidden = torch.full((q.shape[-2], q.shape[-2]), -torch.inf).triu(1)
    return torch.softmax(q @ k.mT / 8**0.5 + hidden, dim=-1) @ v


def by_torch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


@pytest.mark.parametrize("attend", [by_torch, softmax_by_hand])
def test_a_module_of_ones_own_shows_what_inspect_model_does(attend: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    model = ByHand(attend).eval()
    given = {"ids": torch.arange(9)[None]}
    monitor = attn.Monitor(model, probe=given, metrics="sink,entropy")
    asked = attn.inspect_model(model, inputs=given, metric="sink,entropy")
    assert monitor.report is not None
    numbers = [
        {(row.metric, row.layer, row.head): row.value for row in rows if row.layer is not None}
        for rows in (monitor.report.rows, asked.rows)
    ]
    assert len(numbers[1]) == 8
    assert {key: numbers[0][key] for key in numbers[1]} == numbers[1]


class Own(torch.nn.Module):
    """None of transformers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(20, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.layer(self.words(ids))
        return states


@pytest.mark.parametrize("probe", [IDS, np.array([IDS]), torch.tensor([IDS]), {"ids": [IDS]}])
def test_a_module_of_ones_own_reads_its_probe_as_a_question_does(probe: Any) -> None:
    own = Own()
    asked = attn.inspect_model(own, inputs=probe, metric="sink")
    report = attn.Monitor(own, probe=probe, metric="sink").report
    assert report is not None
    assert [row.value for row in report.rows] == [row.value for row in asked.rows]


def test_a_module_of_ones_own_has_no_batch() -> None:
    with pytest.raises(
        UsageError, match="`measure='batch'` is for models of transformers, and Own is"
    ):
        attn.Monitor(Own(), metric="sink", measure="batch")
    with pytest.raises(UsageError, match="`probe` must be what the forward of Own reads"):
        attn.Monitor(Own(), metric="sink")


def test_the_report_is_the_answer_of_any_question(model: PreTrainedModel, tmp_path: Path) -> None:
    report = attn.Monitor(model, probe=IDS, metric="sink").report
    assert isinstance(report, attn.Answer)
    assert not report.check("max(sink) > 2").verdicts[0].failed
    assert attn.read(report.save(tmp_path / "r.json")).rows == report.rows


def test_metrics_have_one_name_at_a_time(model: PreTrainedModel) -> None:
    with pytest.raises(UsageError, match="`metric` and `metrics` are the same"):
        attn.Monitor(model, probe=IDS, metric="sink", metrics="entropy")
    with pytest.raises(TypeError, match=r"unknown keyword of AttnCallback.*did you mean 'metric'"):
        AttnCallback(metrc="sink")  # type: ignore[call-arg]


class OneAttention(torch.nn.Module):
    """A module of one's own with attention and no list of blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.qkv = torch.nn.Embedding(20, 16), torch.nn.Linear(16, 48)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        states = self.embed(ids)
        q, k, v = self.qkv(states).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return states + mixed.transpose(1, 2).flatten(2)


def test_heads_of_a_module_without_blocks_are_measured_by_default() -> None:
    """States between blocks are not: there are no blocks. Whoever names them is refused."""
    ids = torch.arange(12)[None]
    monitor = attn.Monitor(OneAttention(), probe=ids, every=1)
    monitor.step()
    metrics = {row.metric for row in monitor.report.rows}
    assert {"max_logit", "entropy_normalised", "sink"} <= metrics
    assert not metrics & {"stable_rank", "log10_residual"}
    with pytest.raises(InputError, match="no list of blocks"):
        attn.Monitor(OneAttention(), probe=ids, every=1, metrics=["stable_rank"])
