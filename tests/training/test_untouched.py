"""A training that is watched is the same training, to the last bit."""

from io import StringIO
from typing import Any

import pytest
import torch
from training_runs import MODELS, PROBE, all_of, assert_same, batch, llama, train

import attncli as attn
from attncli.analysis.heads.forward_passes.head_observer import HeadObserver
from attncli.models.random.random_models import build_model

METRICS = {"probe": ["max_logit", "min_entropy", "sink", "stable_rank", "max_activation"], "batch": ["max_logit", "entropy_collapse", "sink"]}  # fmt: skip


def watched(model: Any, measure: str, every: int = 3) -> attn.Monitor:
    return attn.Monitor(model, every=every, probe=PROBE, measure=measure, metrics=METRICS[measure])


@pytest.mark.slow
@pytest.mark.parametrize("measure", METRICS)
@pytest.mark.parametrize("name", MODELS)
def test_fifty_steps_with_and_without_are_the_same(name: str, measure: str) -> None:
    plain, other = MODELS[name](), MODELS[name]()
    train(plain, 50)
    expected = all_of(plain)
    with watched(other, measure, every=10) as monitor:
        train(other, 50, monitor.step)
        assert monitor.report is not None
        assert monitor.report.source["step"] == 50
    found = all_of(other)
    for apart in ("buffers",):  # identities
        expected[apart], found[apart] = ({n: v for n, (_, v) in each[apart].items()} for each in (expected, found))  # fmt: skip
    assert_same(found, expected)


def test_making_and_looking_leave_everything_as_it_was() -> None:
    model = train(llama(), 2)
    for module in (model, model.model.layers[0]):  # type: ignore[union-attr,index]
        module.train()
    model.model.layers[1].eval()  # type: ignore[union-attr,index]
    model.lm_head.requires_grad_(False)  # type: ignore[union-attr]
    before = all_of(model)
    monitor = watched(model, "probe")
    monitor.observe_model_now()
    assert_same(all_of(model), before)


@pytest.mark.parametrize("measure", METRICS)
def test_an_exception_in_the_middle_of_a_look_leaves_no_trace(measure: str, monkeypatch: Any, logged: StringIO) -> None:  # fmt: skip
    model = train(llama(), 1)
    monitor = watched(model, measure)
    before = all_of(model)

    def broken(*_: Any) -> None:
        torch.rand(3)
        raise RuntimeError("a bug")

    monkeypatch.setattr(HeadObserver, "begin_attention_statistics", broken)
    model(**batch(0)).loss.backward()
    monitor.now = 2
    if measure == "batch":
        model(**batch(0))
    torch.set_rng_state(before["torch"])
    assert monitor.observe_model_now() == {}
    assert "a look has failed, and the training goes on: RuntimeError: a bug" in logged.getvalue()
    found = all_of(model)
    for name in ("gradients",):  # of the pass above
        del found[name], before[name]
    assert_same(found, before)
    monitor.close()


def test_a_forward_pass_that_fails_in_a_watched_step_leaves_no_trace() -> None:
    model = train(llama(), 1)
    monitor = watched(model, "batch")
    before = all_of(model)
    monitor.now = 2
    with pytest.raises(IndexError):
        model(input_ids=torch.full((1, 4), 1000))
    assert_same(all_of(model), before)
    monitor.close()
    bare = all_of(model)
    assert sum(sum(each) for each in bare["hooks"]) == 0


def test_an_evaluation_in_between_is_not_taken_for_the_step() -> None:
    model = llama()
    monitor = watched(model, "batch")
    monitor.now = 2
    model.eval()
    model(**batch(0))
    model.train()
    with torch.no_grad():
        model(**batch(0))
    assert monitor.step() == {}
    monitor.close()


@pytest.mark.parametrize("way", ["monitor", "question"])
def test_a_model_that_takes_other_parts_for_short_texts_is_given_its_own_back(way: str) -> None:
    """BigBird turns itself into full attention, and stays so."""
    sizes = {"layers": 1, "width": 32, "heads": 2, "block_size": 4, "num_random_blocks": 1}
    model: Any = build_model("big_bird", {**sizes, "max_position_embeddings": 512}, seed=0).train()
    parts = [type(module) for module in model.modules()]
    assert "BigBirdBlockSparseAttention" in {each.__name__ for each in parts}
    if way == "monitor":
        attn.Monitor(model, probe=[[5, 6, 7, 8, 9]], metrics="entropy")
    else:
        attn.inspect_model(model, metric="entropy", token_ids="5,6,7,8,9")
    assert [type(module) for module in model.modules()] == parts
    assert model.attention_type == "block_sparse"
    assert all(module.training for module in model.modules())
