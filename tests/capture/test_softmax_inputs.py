"""The largest score of every head, against the full matrix of scores that the model's own eager attention makes."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

import attncli as attn
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.capture.softmax_attention.attention_interface import LastSoftmax
from attncli.models.random.random_models import build_model

torch.set_num_threads(1)
TOKENS = 24

MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "gpt2": {"layers": 2, "width": 32, "heads": 4},
    "bert": {"layers": 2, "width": 32, "heads": 4},
    "gemma3_text": {"sliding_window": 8},
    "gemma2": {},
    "gpt_oss": {},
    "mimo_v2_flash": {},
}
IN_FLOAT32 = ("gpt_oss", "mimo_v2_flash")
"""Their experts have no kernel for float64."""


@contextmanager
def full_scores(model: Any) -> Iterator[list[Tensor]]:
    """[head, query, key] of every layer, scale and softcap in and nothing hidden; hidden pairs are -inf afterwards."""
    module = importlib.import_module(type(model).__module__)
    usual, found = module.eager_attention_forward, []

    def noted(own: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **how: Any) -> Any:  # fmt: skip
        groups = query.shape[1] // key.shape[1]
        scores = query @ key.repeat_interleave(groups, 1).transpose(2, 3)
        scores = scores * (how.get("scaling") or query.shape[-1] ** -0.5)
        cap = how.get("softcap")
        scores = scores if cap is None else cap * torch.tanh(scores / cap)
        hidden = torch.zeros_like(scores, dtype=torch.bool) if mask is None else mask < -1e30
        found.append(scores.masked_fill(hidden, -torch.inf)[0])
        return usual(own, query, key, value, mask, **how)

    module.eager_attention_forward = noted
    try:
        yield found
    finally:
        module.eager_attention_forward = usual


@pytest.mark.parametrize("arch", MODELS)
def test_the_largest_logit_is_the_maximum_of_the_full_score_matrix(arch: str) -> None:
    model: Any = build_model(arch, MODELS[arch], seed=0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "q_proj" in name or "query" in name or "c_attn" in name:
                parameter.mul_(20.0)
    if arch.startswith("gemma"):
        for module in model.modules():
            if hasattr(module, "attn_logit_softcapping"):
                module.attn_logit_softcapping = 2.5
    double = arch not in IN_FLOAT32
    model = model.double() if double else model
    ids = torch.arange(3, 3 + TOKENS)[None]
    model.set_attn_implementation("eager")
    precision = force_float64() if double else nullcontext()
    with full_scores(model) as scores, torch.no_grad(), precision:
        model.base_model(input_ids=ids)
    report = attn.inspect_model(model, metric="max_logit,qk_clip", token_ids=",".join(map(str, ids[0].tolist())))  # fmt: skip
    found = {(row.metric, row.layer, row.head): row.value for row in report.rows}
    assert len(found) == 2 * sum(map(len, scores))
    for layer, heads in enumerate(scores):
        for head, largest in enumerate(heads.amax(dim=(1, 2)).tolist()):
            assert found["max_logit", layer, head] == pytest.approx(
                largest, rel=1e-9 if double else 1e-5
            )
            assert found["qk_clip", layer, head] == pytest.approx(
                min(1, 100 / max(largest, 1e-9)), rel=1e-5
            )


@pytest.mark.parametrize("arch", ["bloom", "t5", "mpt"])
def test_models_off_the_interface_show_their_scores_too(arch: str) -> None:
    """Position biases included: what the last softmax over keys was given."""
    model: Any = build_model(
        arch, {"layers": 1, "width": 32, "heads": 4, "tiny": "1"}, seed=0
    ).double()
    report = attn.inspect_model(model, metric="max_logit", random_tokens=TOKENS)
    assert all(row.value is not None for row in report.rows), report.rows[0].note


def test_scores_before_their_maxima_were_taken_off() -> None:
    scores = torch.randn(1, 2, 5, 6) + 30.0
    with LastSoftmax() as seen:
        weights = torch.softmax(scores - scores.max(dim=-1, keepdim=True).values, dim=-1)
        beside = weights[..., :-1]  # of a learned sink
    assert seen.find_scores_of_weights(weights) is not None
    assert torch.equal(seen.find_scores_of_weights(weights), scores)  # type: ignore[arg-type]
    assert torch.equal(seen.find_scores_of_weights(beside), scores[..., :-1])  # type: ignore[arg-type]
    assert seen.find_scores_of_weights(weights.clone()) is None
    assert seen.find_scores_of_weights(weights[..., :-2]) is None


def test_of_several_texts_the_largest_counts() -> None:
    model: Any = build_model("bert", {"layers": 1, "width": 32, "heads": 2}, seed=0)

    def rows(*texts: str) -> list[Any]:
        names = "max_logit,min_entropy,entropy"
        return list(attn.inspect_model(model, metric=names, token_ids=list(texts)).rows)

    one, two = rows("5,6,7,8"), rows("9,10,11,12,13")
    for first, second, row in zip(one, two, rows("5,6,7,8", "9,10,11,12,13"), strict=True):
        values = [first.value, second.value]
        wanted = {"max_logit": max(values), "min_entropy": min(values), "entropy": sum(values) / 2}
        assert row.value == pytest.approx(wanted[row.metric], rel=1e-6)
        assert row.spread > 0
