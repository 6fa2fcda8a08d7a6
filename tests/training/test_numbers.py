"""What a look finds, against dense eager maps and states in float64, at three steps of a training."""

import copy
import importlib
import math
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor
from training_runs import MODELS, PROBE, batch, llama, train

import attncli as attn
from attncli.capture.one_pass import one_pass_checked_against_eager
from attncli.capture.reruns.seed_and_precision import force_float64
from attncli.records import Report

EVERY = 4
METRICS = ["max_logit", "qk_clip", "entropy_normalised", "min_entropy", "entropy_collapse", "sink", "stable_rank", "log10_residual"]  # fmt: skip


class Dense:
    """One text through the model's own eager code, everything kept: [head, query, key] and [token, feature]."""

    def __init__(self, model: Any, ids: Tensor, **more: Tensor) -> None:
        model = copy.deepcopy(model).double().eval()
        model.set_attn_implementation("eager")
        self.scores: list[Tensor] = []
        self.states: list[Tensor] = []
        module = importlib.import_module(type(model).__module__)
        usual = module.eager_attention_forward
        blocks = next(each for name, each in model.named_modules() if name.endswith((".layers", ".h", ".layer")))  # fmt: skip
        handles = [blocks[0].register_forward_pre_hook(lambda _, args, kw: self.states.append((args or tuple(kw.values()))[0][0]), with_kwargs=True)]  # fmt: skip
        handles += [block.register_forward_hook(lambda *seen: self.states.append((seen[2][0] if isinstance(seen[2], tuple) else seen[2])[0])) for block in blocks]  # fmt: skip

        def noted(own: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **how: Any) -> Any:  # fmt: skip
            groups = query.shape[1] // key.shape[1]
            scores = query @ key.repeat_interleave(groups, 1).transpose(2, 3)
            scores = scores * (how.get("scaling") or query.shape[-1] ** -0.5)
            if how.get("softcap"):
                scores = how["softcap"] * torch.tanh(scores / how["softcap"])
            hidden = torch.zeros_like(scores).bool() if mask is None else (mask < -1e30).expand_as(scores)  # fmt: skip
            self.scores.append(scores.masked_fill(hidden, -math.inf)[0])
            return usual(own, query, key, value, mask, **how)

        module.eager_attention_forward = noted
        try:
            with torch.no_grad(), force_float64():
                model(input_ids=ids, **more)
        finally:
            module.eager_attention_forward = usual
            for handle in handles:
                handle.remove()

    def numbers(self) -> dict[tuple[str, int, int | None], float]:
        """By metric, layer and head."""
        found: dict[tuple[str, int, int | None], float] = {}
        for layer, scores in enumerate(self.scores):
            for head, own in enumerate(scores):
                found |= {(name, layer, head): value for name, value in of_head(own.numpy()).items()}  # fmt: skip
        for layer, state in enumerate(self.states):
            x = state.numpy()
            s = np.linalg.svd(x, compute_uv=False)
            found["stable_rank", layer, None] = float((s**2).sum() / s[0] ** 2)
        return found


def of_head(scores: np.ndarray) -> dict[str, float]:
    visible = np.isfinite(scores)
    seen = visible.sum(axis=1)
    a = np.exp(scores - scores.max(axis=1, keepdims=True))
    a /= a.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        h = -np.where(a > 0, a * np.log(a), 0.0).sum(axis=1)
        normalised = h[seen > 1] / np.log(seen[seen > 1])
    first = visible[:, 0]
    return {
        "max_logit": scores[visible].max(),
        "qk_clip": 100 / max(100.0, scores[visible].max()),
        "entropy_normalised": normalised.mean(),
        "min_entropy": h[2 * seen >= seen.max()].min(),
        "entropy_collapse": (h < 0.1).mean(),
        "sink": a[first, 0].mean(),
    }


TAKE = {"max_logit": max, "qk_clip": min, "min_entropy": min}


def expected(model: Any, lists: Any) -> dict[tuple[str, int, int | None], float]:
    """Over several texts."""
    each = [Dense(model, torch.tensor([ids])).numbers() for ids in lists]
    return {key: TAKE.get(key[0], np.mean)([found[key] for found in each]) for key in each[0]}


def compare(report: Report, wanted: dict[Any, float], tolerance: float) -> None:
    rows = {(row.metric, row.layer, row.head): row.value for row in report.rows}
    missing = [key for key in wanted if key not in rows and key[0] in report.metrics]
    assert not missing
    for key, value in wanted.items():
        if key in rows:
            assert rows[key] == pytest.approx(value, rel=tolerance, abs=tolerance), key


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_probe_at_three_steps(name: str) -> None:
    model: Any = MODELS[name]()
    checked = []

    def look() -> None:
        if monitor.step():
            assert monitor.report is not None
            compare(monitor.report, expected(model, PROBE), 2e-5)
            checked.append(monitor.now)

    monitor = attn.Monitor(model, every=EVERY, probe=PROBE, metrics=METRICS)
    train(model, 3 * EVERY, look, rate=3e-2)
    assert checked == [4, 8, 12]


@pytest.mark.parametrize("name", ["llama", "bert", "gemma3"])
def test_a_batch_is_seen_without_its_padding(name: str) -> None:
    """Each text as if it ran alone, with the weights before the step and without dropout."""
    model: Any = MODELS[name]()
    monitor = attn.Monitor(model, every=EVERY, probe=PROBE, metrics=METRICS[:6], measure="batch")
    train(model, EVERY - 1, monitor.step, rate=3e-2)
    for module in model.modules():  # or the states would be drawn at random
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    if hasattr(model.config, "attention_dropout"):
        for layer in model.model.layers:
            layer.self_attn.attention_dropout = 0.0
    given = batch(5)
    texts = [ids[mask.bool()] for ids, mask in zip(given["input_ids"], given["attention_mask"], strict=True)]  # fmt: skip
    first = [int(mask.argmax()) for mask in given["attention_mask"]]
    places = [torch.arange(start, start + len(ids))[None] for start, ids in zip(first, texts, strict=True)]  # fmt: skip
    each = [Dense(model, ids[None], position_ids=at).numbers() for ids, at in zip(texts, places, strict=True)]  # fmt: skip
    wanted = {key: TAKE.get(key[0], np.mean)([found[key] for found in each]) for key in each[0] if key[2] is not None}  # fmt: skip
    model.train()
    model(**given).loss.backward()
    assert monitor.step()
    assert monitor.report is not None
    compare(monitor.report, wanted, 2e-5)
    assert {row.n for row in monitor.report.rows if row.metric == "sink"} == {3}
    assert all("uniform" in row.keys for row in monitor.report.rows if row.metric == "sink")
    monitor.close()


def test_packed_texts_are_texts_of_their_own() -> None:
    model: Any = llama()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.0
    ids = batch(3)["input_ids"][:1]
    positions = torch.tensor([[*range(6), *range(10)]])
    wanted = [Dense(model, part).numbers() for part in (ids[:, :6], ids[:, 6:])]
    monitor = attn.Monitor(model, every=1, probe=PROBE, metrics=METRICS[:6], measure="batch")
    model.train()
    model(input_ids=ids, position_ids=positions, labels=ids, use_cache=False).loss.backward()
    monitor.step()
    assert monitor.report is not None
    mean = {key: TAKE.get(key[0], np.mean)([found[key] for found in wanted]) for key in wanted[0] if key[2] is not None}  # fmt: skip
    compare(monitor.report, mean, 2e-5)
    monitor.close()


def test_position_ids_alone_separate_nothing() -> None:
    """With a mask of its own the model attends across: so do the numbers."""
    model: Any = llama()
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.0
    given = batch(3)
    positions = torch.tensor([[*range(6), *range(10)]])
    monitor = attn.Monitor(model, every=1, probe=PROBE, metrics=METRICS[:6], measure="batch")
    model.train()
    ids = given["input_ids"][:1]
    model(input_ids=ids, attention_mask=torch.ones_like(ids), position_ids=positions, labels=ids).loss.backward()  # fmt: skip
    monitor.step()
    assert monitor.report is not None
    found = Dense(model, ids, position_ids=positions, attention_mask=torch.ones_like(ids)).numbers()
    compare(monitor.report, {key: value for key, value in found.items() if key[2] is not None}, 2e-5)  # fmt: skip
    monitor.close()


def test_all_layers_share_what_the_mask_of_a_step_shows(monkeypatch: Any) -> None:
    model, calls = llama(), Mock(side_effect=one_pass_checked_against_eager.find_visible_spans)
    monitor = attn.Monitor(model, every=1, probe=PROBE, metrics="sink", measure="batch")
    monkeypatch.setattr(one_pass_checked_against_eager, "FEWEST_CELLS", 0)
    monkeypatch.setattr(one_pass_checked_against_eager, "find_visible_spans", calls)
    ids = batch(3)["input_ids"]
    model.train()(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    assert monitor.step()
    assert calls.call_count == 1 < len(model.model.layers)
    monitor.close()


@pytest.mark.slow
def test_a_probe_of_ones_own_is_not_needed() -> None:
    """Random tokens where there is no tokenizer, no more than the model has positions for."""
    monitor = attn.Monitor(llama())
    assert monitor.report is not None
    (read,) = monitor.report.input["texts"]
    assert (read["name"], read["tokens"]) == ("random tokens, seed 0", 64)
