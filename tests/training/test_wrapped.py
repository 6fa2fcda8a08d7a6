"""Whatever a model is wrapped in while it is trained, the numbers are those of the model alone."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from processes import outcomes, two_ranks
from training_ranks import with_shards, with_trainer
from training_runs import PROBE, all_of, assert_same, batch, llama, train

import attncli as attn
from attncli.errors import UsageError

METRICS = ["max_logit", "entropy_normalised", "sink", "min_entropy"]


def numbers(report: Any) -> dict[Any, float | None]:
    return {(row.metric, row.layer, row.head): row.value for row in report.rows if row.metric in METRICS}  # fmt: skip


def alone(model: Any) -> dict[Any, float | None]:
    """By the front door, in a process of its own kind."""
    return numbers(attn.inspect_model(model, metric=METRICS, token_ids=[",".join(map(str, ids)) for ids in PROBE]))  # fmt: skip


def same_numbers(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, rel=tolerance, abs=tolerance), key


def undropped(model: Any) -> Any:
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.0
    return model


def of_step(model: Any, measure: str, given: Any = batch, inner: Any = None) -> dict[Any, float | None]:  # fmt: skip
    """The numbers of the first step of a training."""
    with attn.Monitor(model, every=1, probe=PROBE, metrics=METRICS, measure=measure) as monitor:
        train(model, 1, monitor.step, given)
        return numbers(monitor.report)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of peft
@pytest.mark.parametrize("measure", ["probe", "batch"])
def test_adapters_of_peft(measure: str) -> None:
    config = peft.LoraConfig(target_modules=["q_proj", "v_proj"], r=4, init_lora_weights=False)
    torch.manual_seed(3)
    model = peft.get_peft_model(undropped(llama()), config)
    if measure == "probe":
        monitor = attn.Monitor(model, probe=PROBE, metrics=METRICS)
        same_numbers(numbers(monitor.report), alone(model.get_base_model()))
    before = of_step(model, measure)
    assert len(before) == 4 * 8
    prompt = peft.get_peft_model(llama(), peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3))  # fmt: skip
    with pytest.raises(UsageError, match="learn a prompt"):
        attn.Monitor(prompt, probe=PROBE)


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing(reentrant: bool) -> None:
    """What is computed twice is seen once, and computed as without."""

    def checkpointed() -> Any:
        model: Any = llama()
        model.activation_checkpointing_enable({"use_reentrant": reentrant})
        return model

    plain, watched = train(checkpointed(), 4), checkpointed()
    with attn.Monitor(watched, every=1, probe=PROBE, metrics=METRICS, measure="batch") as monitor:
        train(watched, 4, monitor.step)
        assert {row.n for row in monitor.report.rows if row.metric == "sink"} == {3}
    assert_same(all_of(plain)["state"], all_of(watched)["state"])


def test_bfloat16_by_autocast() -> None:
    """A probe is looked at in the weights' own type; a batch as it runs."""
    model = undropped(llama())
    exact = alone(model)

    def cast(step: int) -> Any:
        return batch(step)

    with torch.autocast("cpu", torch.bfloat16):
        monitor = attn.Monitor(model, probe=PROBE, metrics=METRICS)
    same_numbers(numbers(monitor.report), exact)
    rough = attn.Monitor(model, every=1, probe=PROBE, metrics=METRICS, measure="batch")
    model.train()
    with torch.autocast("cpu", torch.bfloat16):
        model(**cast(0)).loss.backward()
    rough.step()
    rough.close()
    same_numbers(numbers(rough.report), of_step(undropped(llama()), "batch"), 2e-2)


def test_accumulated_batches_are_all_seen() -> None:
    model = undropped(llama())
    with attn.Monitor(model, every=1, probe=PROBE, metrics=METRICS, measure="batch") as monitor:
        model.train()
        for part in range(2):
            model(**batch(part)).loss.backward()
        monitor.step()
        assert monitor.report is not None
        assert {row.n for row in monitor.report.rows if row.metric == "sink"} == {6}


@pytest.mark.slow
def test_compiled_models_fall_back_and_say_so(logged: StringIO) -> None:
    plain = of_step(undropped(llama()), "batch")
    model = undropped(llama())
    compiled: Any = torch.compile(model, backend="aot_eager")
    monitor = attn.Monitor(compiled, probe=PROBE, metrics=METRICS)
    same_numbers(numbers(monitor.report), alone(model))
    found = of_step(compiled, "batch")
    said = "the model is compiled, so that its steps cannot be watched as they run: each measured batch is run once more next to the step."  # fmt: skip
    assert logged.getvalue().count(said) == 1
    same_numbers(found, plain, 1e-5)
    assert compiled.training
    in_place: Any = undropped(llama())
    in_place.compile(backend="aot_eager")
    same_numbers(of_step(in_place, "batch"), plain, 1e-5)


@pytest.mark.parametrize("arch", ["bloom", "mpt"])
def test_attention_off_the_interface_is_run_beside_the_step(arch: str, logged: StringIO) -> None:
    from attncli.models.random.random_models import build_model

    model: Any = build_model(arch, {"tiny": "1", "layers": 2}, seed=0).requires_grad_(True)
    ids = batch(0)["input_ids"].clamp(max=model.config.vocab_size - 1)
    with attn.Monitor(model, every=1, probe=PROBE[1:], metrics=["max_logit"], measure="batch") as monitor:  # fmt: skip
        model.train()
        model(input_ids=ids)
        monitor.step()
    assert "computes its attention by itself" in logged.getvalue()
    found = {(r.layer, r.head): r.value for r in monitor.report.rows if r.metric == "max_logit"}  # type: ignore[union-attr]
    lists = [",".join(map(str, each.tolist())) for each in ids]
    rows = attn.inspect_model(model, metric="max_logit", token_ids=lists).rows
    assert found == {(row.layer, row.head): pytest.approx(row.value, rel=1e-6) for row in rows}


def test_other_ways_to_divide_a_model_are_refused_by_name() -> None:
    model = llama()
    next(model.parameters()).ds_id = 3  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="DeepSpeed ZeRO-3"):
        attn.Monitor(model, probe=PROBE)


def test_a_module_of_ones_own_is_watched_by_its_arguments() -> None:
    class Own(torch.nn.Module):
        """Two of the model's layers under a head of one's own."""

        def __init__(self) -> None:
            super().__init__()
            self.inner: Any = llama().model
            self.head = torch.nn.Linear(32, 2)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.inner(input_ids=tokens, use_cache=False).last_hidden_state)  # type: ignore[no-any-return]

    own = Own()
    ids = torch.tensor(PROBE[:1])
    monitor = attn.Monitor(own, probe={"tokens": ids}, metrics=METRICS)
    rows = attn.inspect_model(own.inner, metric=METRICS, token_ids=",".join(map(str, PROBE[0]))).rows  # fmt: skip
    same_numbers(numbers(monitor.report), {(r.metric, r.layer, r.head): r.value for r in rows})
    as_ids = attn.Monitor(own, probe=ids, metrics=METRICS)
    assert numbers(as_ids.report) == numbers(monitor.report)
    with pytest.raises(UsageError, match="holds a str: give a tensor"):
        attn.Monitor(own, probe="words", metrics=METRICS)


def test_a_probe_of_arguments_is_read_without_its_padding() -> None:
    model, ids = llama(), PROBE[0]
    alone = attn.Monitor(model, probe=[ids], metrics=METRICS)
    padded = {"input_ids": torch.tensor([[*ids, 1, 1]]), "attention_mask": torch.tensor([[1] * len(ids) + [0, 0]])}  # fmt: skip
    assert numbers(attn.Monitor(model, probe=padded, metrics=METRICS).report) == numbers(alone.report)  # fmt: skip
    with pytest.raises(UsageError, match="attention_mask of `probe` leaves out tokens between"):
        attn.Monitor(model, probe={**padded, "attention_mask": torch.tensor([[0, 1, 0] + [1] * (len(ids) - 1)])})  # fmt: skip


@pytest.mark.slow
def test_two_processes_find_what_one_finds(tmp_path: Path) -> None:
    """With copies of a model, and with parts of one."""
    program = "import training_ranks; training_ranks.main()"
    first, second = outcomes(two_ranks(program, [str(tmp_path / "two")], tmp_path))
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    for measure in ("probe", "batch"):
        with_trainer(tmp_path / "one" / "ddp" / measure, measure)
        with_shards(tmp_path / "one" / "fsdp2", measure)
    stopped_together(first[1] + second[1], first[2] + second[2])
    ours = [path for path in sorted((tmp_path / "two").rglob("step-*.json")) if "stopped" not in path.parts]  # fmt: skip
    assert [sum(how in path.parts for path in ours) for how in ("ddp", "fsdp2")] == [7, 7]
    for path in ours:
        other = tmp_path / "one" / path.relative_to(tmp_path / "two")
        rows, expected = (json.loads(each.read_text())["rows"] for each in (path, other))
        for row, wanted in zip(rows, expected, strict=True):
            place = [row[name] for name in ("metric", "layer", "head")]
            assert place == [wanted[name] for name in ("metric", "layer", "head")]
            if not row["metric"].endswith(("_growth", "_steps_left")):
                assert row["value"] == pytest.approx(wanted["value"], rel=1e-3, abs=1e-4), place


def stopped_together(printed: str, said: str) -> None:
    """Both processes end the third run at the same step, for the same reason, and one of them says so."""
    ends = re.findall(r"rank \d ended at (.*)", printed)
    assert len(ends) == 6
    (end,) = {each for each in ends if "nothing" not in each}
    assert ends.count(end) == 2
    assert "step 6" not in end
    assert "max(max_logit) > 0.14" in end
    assert said.count("stopped by max(max_logit)") == 1
