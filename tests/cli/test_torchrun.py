"""Commands under torchrun: the report of one process, or none at all."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import commands
import pytest
import torch
from commands import attn, files_in
from processes import children, outcomes, torchrun, two_ranks
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM
from warm import ATTN, Warm

from attncli.declare.dry_run import STAGE
from attncli.errors import UsageError
from attncli.models.inputs.text_files import read_file_or_stdin
from attncli.models.quiet_libraries import silence_libraries
from attncli.models.random.dummy_inputs import make_example_inputs
from attncli.options.model_and_input import ModelOptions
from attncli.processes.termination_signals import ENDED

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 64,
    "max_position_embeddings": 512,
    "bos_token_id": 0,
    "eos_token_id": 1,
}
MEETING = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
GROUPED = {"num_key_value_heads": 2}


torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def saved(folder: Path, model_class: Any, config: Any) -> Path:
    """Weights large enough that no two heads are alike."""
    with torch.random.fork_rng(devices=[]), silence_libraries():
        torch.manual_seed(0)
        model = model_class(config)
        with torch.no_grad():
            for weight in model.parameters():
                weight.add_(0.1 * torch.randn_like(weight))
        model.save_pretrained(folder)
    return folder


def llama(folder: Path) -> Path:
    return saved(folder / "llama", LlamaForCausalLM, LlamaConfig(**SIZES, **GROUPED))


def in_one_process(*arguments: str) -> bytes:
    """The report FILE that the arguments name; other processes have the same name for it."""
    done = attn(*arguments)
    assert done.code == 0, done.err
    path = Path(arguments[-1])
    found = path.read_bytes()
    path.unlink()
    return found


HELD = """
import signal
from attncli.processes import resume_cache as parts

def write(path, result, write=parts.write_cached_result):
    write(path, result)
    while True:  # a signal that is answered elsewhere ends one pause
        signal.pause()

parts.write_cached_result = write
from attncli.cli.main import main
main()
"""
"""The program, but that each of its processes stands still once it has kept its first result."""


def held(folder: Path, process: Warm) -> None:
    """Once both have stopped there."""
    while len(list(folder.glob("*.parts/*.pt"))) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


@pytest.mark.slow
def test_a_killed_run_says_so_and_is_gone_on_with(tmp_path: Path) -> None:
    model = str(llama(tmp_path))
    line = ("inspect-model", model, "--random-tokens", "20", "--samples", "6", "-o", "report.json")
    whole = in_one_process(*line)
    program = tmp_path / "held.py"
    program.write_text(HELD)
    process = torchrun(*line, folder=tmp_path, program=[str(program)])
    held(tmp_path, process)
    os.kill(children(process.pid)[1], signal.SIGKILL)
    (outcome,) = outcomes([process])
    assert outcome[:2] == (1, ""), "torchrun's own exit code"
    assert outcome[2].count(f"attn: {ENDED}\n") == 1
    assert "report.json" not in files_in(tmp_path)

    first, second = outcomes(two_ranks(ATTN, line, tmp_path))
    assert (first[:2], second) == ((0, ""), (0, "", "")), first
    assert "2 results are left of a run that did not finish" in first[2]
    assert first[2].count("→ report.json") == 1
    assert (tmp_path / "report.json").read_bytes() == whole
    assert files_in(tmp_path) == ["held.py", "llama", "report.json"]


@pytest.mark.slow
def test_torchrun_hides_the_exit_code_and_that_is_said(tmp_path: Path) -> None:
    """A failed gate leaves its report, on which `attn check` ends with the code that is meant."""
    line = ("inspect-model", str(llama(tmp_path)), "--random-tokens", "8", "-o", "report.json")
    failing = torchrun(*line, "--fail-if", "sink > -1", folder=tmp_path)
    (gate,) = outcomes([failing])
    assert gate[0] == 1
    assert gate[2].count("attn: this is exit code 1; torchrun itself ends with 1") == 1
    assert "the report is written, gate it with `attn check`" in gate[2]
    assert attn("check", "report.json").code == 1


@pytest.mark.slow
def test_a_text_that_fails_on_one_rank_ends_all_with_one_sentence(tmp_path: Path) -> None:
    model = saved(tmp_path / "model", GPTNeoXForCausalLM, GPTNeoXConfig(**SIZES))
    overflow_at_token_of_second_text(model)
    line = ("rank-collapse", str(model), "--random-tokens", "4", "--samples", "4", "--dtype", "float32", "-o", "r.csv")  # fmt: skip
    alone = attn(*line[:-1], "alone.csv")  # what it has finished is kept beside its own file
    assert (alone.code, alone.out) == (3, "")
    assert "seed 1" in alone.err
    first, second = outcomes(two_ranks(ATTN, line, tmp_path))
    assert first == (3, "", alone.err)
    assert second == (3, "", "")
    assert "r.csv" not in files_in(tmp_path)


def overflow_at_token_of_second_text(folder: Path) -> None:
    """Finite in the file, beyond float32 once it is added up by a norm; the other texts do not hold it."""
    with torch.no_grad(), silence_libraries():
        model = GPTNeoXForCausalLM.from_pretrained(folder)
        body = model.gpt_neox
        texts = [
            set(make_example_inputs(body, 4, seed)["input_ids"][0].tolist()) for seed in range(4)
        ]
        own = min(texts[1] - texts[0] - texts[2] - texts[3])
        body.embed_in.weight[own] = 3e38
        model.save_pretrained(folder)


@pytest.mark.slow
def test_a_sweep_is_divided_over_the_ranks(tmp_path: Path) -> None:
    """Each rank runs its items as ever: the same table, the same codes, and nothing done twice."""
    for step in (100, 900, 1000):
        sizes = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2")
        path = str(tmp_path / f"net-{step}.safetensors")
        assert attn("generate", "network", *sizes, "--seed", str(step), "-o", path).code == 0
    line = ("sweep", "rank-collapse", "--glob", "net-*", "--into", "out", "-o", "sweep.json")
    first, second = outcomes(two_ranks(ATTN, line, tmp_path))
    assert (first[0], second) == (0, (0, "", ""))
    swept = json.loads((tmp_path / "sweep.json").read_bytes())
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    assert len(done) == 3
    alone = json.loads(in_one_process(*line))
    assert swept.pop("environment").items() >= alone.pop("environment").items()
    assert swept == alone
    assert done == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["inspect-model", "rank-collapse"])
def test_a_model_split_over_two_processes_is_the_model(tmp_path: Path, command: str) -> None:
    """Every number to 1e-4, heads under their own numbers: grouped keys, and queries, keys and values in one layer."""
    model = (
        llama(tmp_path)
        if command == "inspect-model"
        else saved(tmp_path / "neox", GPTNeoXForCausalLM, GPTNeoXConfig(**SIZES))
    )
    line = (command, str(model), "--random-tokens", "40", "--samples", "2")
    plain = ("--arithmetic", "float64") if command == "rank-collapse" else ()
    whole = json.loads(in_one_process(*line, *plain, "-o", "report.json"))
    words = (*line, "--tensor-parallel", "-o", "report.json")
    first, second = outcomes(two_ranks(ATTN, words, tmp_path))
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    split = json.loads((tmp_path / "report.json").read_text())
    assert split["source"]["split_over"] == 2
    assert split["source"]["weight_sha256"] == whole["source"]["weight_sha256"]
    assert len(split["rows"]) == len(whole["rows"]) > 20
    for one, other in zip(split["rows"], whole["rows"], strict=True):
        floats = [name for name, value in other.items() if isinstance(value, float)]
        found, wanted = [one.pop(name) for name in floats], [other.pop(name) for name in floats]
        found += one.pop("each", [])
        wanted += other.pop("each", [])
        assert one == other
        assert found == pytest.approx(wanted, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "several", "said"),
    [
        (("--tensor-parallel",), False, "start them with --processes N"),
        (("--tensor-parallel", "--device", "cpu"), True, "--device and --tensor-parallel exclude"),
        (("--device", "cpu", "--device-map", "auto"), False, "--device and --device-map exclude"),
        (("--device-map", "auto"), True, "leave it out under torchrun"),
        (("--tensor-parallel", "--with-random-init"), True, "--with-random-init: leave one out"),
    ],
)
def test_misuse(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    several: bool,
    said: str,
) -> None:
    monkeypatch.setattr(commands, "PLAIN", {**commands.PLAIN, **(MEETING if several else {})})
    outcome = attn("inspect-model", str(llama(tmp_path)), *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_a_model_may_be_split_by_processes_that_attn_will_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The dry run of `--processes` comes before there are any."""
    monkeypatch.setattr(STAGE, "rehearsing", True)
    assert ModelOptions(tensor_parallel=True).build_model_load_options(0).tensor_parallel


def test_one_stdin_is_not_read_by_several(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in MEETING.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="cannot read one stdin"):
        read_file_or_stdin("-")
