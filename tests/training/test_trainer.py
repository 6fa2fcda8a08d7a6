"""`Trainer(…, callbacks=[AttnCallback(…)])`: logs, history, stopping, and the same weights."""

import errno
import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import nn
from training_runs import PROBE, assert_same, batch, llama, seeded

import attncli as attn
from attncli.errors import UsageError
from attncli.reports.json_report_reading import read_report
from attncli.training import AttnCallback


class Data(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 24

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        return {name: value[place % 3] for name, value in batch(place // 3).items()}


def trainer(folder: Path, *callbacks: Any, model: nn.Module | None = None, **how: Any) -> Any:
    settings = {"max_steps": 12, "per_device_train_batch_size": 3, "logging_steps": 5, "report_to": [],
        "save_strategy": "no", "use_cpu": True, "disable_tqdm": True, "learning_rate": 1e-2, "seed": 3}  # fmt: skip
    args = hf.TrainingArguments(str(folder), **{**settings, **how})
    made = hf.Trainer(model or llama(), args, train_dataset=Data(), callbacks=list(callbacks))
    made.remove_callback(hf.trainer_callback.PrinterCallback)
    return made


def watcher(**how: Any) -> AttnCallback:
    return AttnCallback(**{"every": 4, "probe": PROBE, **how})


class Listener(hf.TrainerCallback):
    """As a logger would hear it."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, dict[str, float]]] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        self.heard.append((state.global_step, dict(logs)))


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"measure": "batch"}])
def test_every_logger_hears_the_numbers_and_the_training_is_the_same(tmp_path: Path, more: Any) -> None:  # fmt: skip
    ears = Listener()
    plain = trainer(tmp_path / "a")
    plain.train()
    other = trainer(tmp_path / "b", ears, watcher(**more))
    other.train()
    assert_same(dict(plain.model.state_dict()), dict(other.model.state_dict()))
    ours = [(step, logs) for step, logs in ears.heard if "attn/max_logit/worst" in logs]
    first = [] if more else [0]
    assert [step for step, _ in ours] == [*first, 4, 8, 12]
    assert all(type(value) in (int, float) for _, logs in ours for value in logs.values())
    assert [step for step, logs in ears.heard if "loss" in logs] == [5, 10]
    kept = [entry for entry in other.state.log_history if "attn/max_logit/worst" in entry]
    assert [entry["step"] for entry in kept] == [*first, 4, 8, 12]


@pytest.mark.slow
def test_reports_of_the_history_are_those_of_any_model(tmp_path: Path, logged: StringIO) -> None:
    callback = watcher(each_layer=True, warn_if="max(sink) > 0.1", stop_if="max(sink) > 0.99")
    run = trainer(tmp_path, callback)
    run.train()
    files = sorted(path.name for path in (tmp_path / "attn").iterdir())
    assert files == [f"step-{step:06d}.json" for step in (0, 4, 8, 12)]
    report = read_report(str(tmp_path / "attn" / files[-1]))
    monitor = callback.monitor
    assert monitor is not None
    alone = attn.inspect_model(run.model, metric=["max_logit", "sink"], token_ids=[",".join(map(str, ids)) for ids in PROBE])  # fmt: skip
    rows = {(row.metric, row.layer, row.head): row for row in report.rows}
    for row in alone.rows:
        assert rows[row.metric, row.layer, row.head].value == pytest.approx(row.value, rel=1e-6)
        assert rows[row.metric, row.layer, row.head].keys == row.keys
    assert [(each.condition, each.failed) for each in report.verdicts] == [("max(sink) > 0.99", False)]  # fmt: skip
    assert report.warnings[0].startswith("max(sink) > 0.1: max of 8 values: 0.")
    assert logged.getvalue().count("max(sink) > 0.1") == 1, "what goes on is not said again"
    logs = run.state.log_history[-2]
    layer = [row.value for row in report.rows if row.metric == "max_logit" and row.layer == 1]
    assert logs["attn/max_logit/layer_01"] == max(v for v in layer if v is not None)
    growth = [row for row in report.rows if row.metric == "max_logit_growth"]
    assert len(growth) == 8
    assert all(row.value is not None and row.keys["error"] > 0 for row in growth)
    old = tmp_path / "attn" / files[0]
    moved = attn.compare(old, tmp_path / "attn" / files[-1])
    assert "max_logit" in {row.keys["measured"] for row in moved.rows}


@pytest.mark.slow
def test_a_condition_stops_the_run_and_says_what_did(tmp_path: Path, logged: StringIO) -> None:
    model = llama()

    class Scale(hf.TrainerCallback):
        """A head whose queries grow."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            with torch.no_grad():
                model.model.layers[1].self_attn.q_proj.weight[8:16].mul_(2.0)  # type: ignore[union-attr,index]

    callback = watcher(every=2, stop_if="max(max_logit) > 50", metrics="max_logit,entropy")
    run = trainer(tmp_path, Scale(), callback, model=model, max_steps=40)
    run.train()
    assert 8 <= run.state.global_step < 24
    assert run.state.global_step % 2 == 0
    said = f"attn, step {run.state.global_step}: stopped by max(max_logit) > 50: "
    assert said in logged.getvalue()
    assert ", layer 1, head 1" in callback.stopped
    report = read_report(str(tmp_path / "attn" / f"step-{run.state.global_step:06d}.json"))
    assert [verdict.failed for verdict in report.verdicts] == [True]


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_with_its_history(tmp_path: Path) -> None:
    """Checkpoints at 4 and 8, killed after 10: step 10's report belongs to a run that is no more."""

    class Killed(Exception):
        pass

    class Kill(hf.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 11:
                raise Killed

    how = {"save_strategy": "steps", "save_steps": 4, "max_steps": 14}
    with pytest.raises(Killed):
        trainer(tmp_path, watcher(every=2), Kill(), **how).train()
    before = {path.name: path.read_text() for path in (tmp_path / "attn").glob("step-*.json")}
    assert max(before) == "step-000010.json"
    run = trainer(tmp_path, watcher(every=2), **how)
    run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-8"))
    whole = trainer(tmp_path / "whole", watcher(every=2), **how)
    whole.train()
    kept, expected = ({path.name: path for path in (folder / "attn").glob("step-*.json")} for folder in (tmp_path, tmp_path / "whole"))  # fmt: skip
    assert kept.keys() == expected.keys()
    assert all(kept[f"step-{step:06d}.json"].read_text() == before[f"step-{step:06d}.json"] for step in (2, 4, 6, 8))  # fmt: skip
    for name, path in kept.items():
        ours, theirs = json.loads(path.read_text()), json.loads(expected[name].read_text())
        assert ours["rows"] == theirs["rows"], name
    assert [path.name for path in (tmp_path / "attn" / "replaced").iterdir()] == ["step-000010.json"]  # fmt: skip


@pytest.mark.slow
def test_a_full_disk_ends_the_history_and_not_the_training(tmp_path: Path, logged: StringIO, monkeypatch: Any) -> None:  # fmt: skip
    usual = os.replace

    def full(source: Any, target: Any, **how: Any) -> None:
        if "step-000004" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        usual(source, target, **how)

    monkeypatch.setattr(os, "replace", full)
    ears = Listener()
    run = trainer(tmp_path, ears, watcher())
    run.train()
    assert run.state.global_step == 12
    assert [path.name for path in (tmp_path / "attn").iterdir()] == ["step-000000.json"]
    assert logged.getvalue().count("the disk is full. The history ends before step 4; the training goes on.") == 1  # fmt: skip
    assert max(step for step, logs in ears.heard if "attn/max_logit/worst" in logs) == 12


@pytest.mark.slow
@pytest.mark.parametrize("stop_if", ["", "max(max_logit) > 100"])
def test_a_step_without_numbers_is_told_by_name_and_layer(tmp_path: Path, logged: StringIO, stop_if: str) -> None:  # fmt: skip
    model = llama()

    class Spoil(hf.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 8:
                with torch.no_grad():
                    model.model.layers[1].self_attn.k_proj.weight[3, 4] = torch.nan  # type: ignore[union-attr,index]

    ears = Listener()
    run = trainer(tmp_path, ears, Spoil(), watcher(stop_if=stop_if or ()), model=model)
    run.train()
    said = "step 8: layer 1 (layers.1.self_attn): the attention has NaN in row"
    assert said in logged.getvalue()
    assert "model.layers.1.self_attn.k_proj.weight holds 1 of 512 numbers that are not finite" in logged.getvalue()  # fmt: skip
    assert run.state.global_step == (8 if stop_if else 12)
    report = read_report(str(tmp_path / "attn" / "step-000008.json"))
    assert all(row.value is None and said.partition(": ")[2] in str(row.note) for row in report.rows)  # fmt: skip
    assert {row.metric for row in report.rows} >= {"max_logit", "sink", "stable_rank"}
    assert (8, 1.0) in [(step, logs.get("attn/not_finite")) for step, logs in ears.heard]


def test_what_is_wrong_is_said_before_the_training() -> None:
    for wrong, sentence in [
        ({"stop_if": "max(max_logit) >"}, "cannot read the gate"),
        ({"stop_if": "max(max_logits) > 3"}, "max_logit"),
        ({"stop_if": "max(induction) > 3"}, "is not measured: add it to `metrics`"),
        ({"metrics": "entropi"}, "entropy"),
        ({"measure": "step"}, "`measure` must be 'probe' or 'batch'"),
        ({"measure": "batch", "metrics": ["stable_rank"]}, "stable_rank is not made of them"),
        ({"every": 0}, "`every` must be at least 1"),
    ]:
        with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
            AttnCallback(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="texts need a tokenizer"):
        attn.Monitor(llama(), probe=["a text"])
    with pytest.raises(UsageError, match="`probe` must be texts, token ids"):
        attn.Monitor(llama(), probe=[])
    with pytest.raises(UsageError, match="`model` must be a module in training, not 'gpt2'"):
        attn.Monitor("gpt2")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="there are 0, 1"):
        attn.Monitor(llama(), probe=PROBE, stop_if="max_logit[layer=9] > 3")
    with pytest.raises(UsageError, match="AttnCallback is for transformers' Trainer"):
        AttnCallback().on_train_begin(hf.TrainingArguments("x", report_to=[]), hf.TrainerState(), hf.TrainerControl())  # fmt: skip
    t5 = seeded(lambda: hf.T5Model(hf.T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, vocab_size=60, decoder_start_token_id=0)))  # fmt: skip
    with pytest.raises(UsageError, match="look at T5Model with a probe"):
        attn.Monitor(t5, probe=PROBE, measure="batch")
