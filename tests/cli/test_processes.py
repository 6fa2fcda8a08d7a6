"""`--processes N`: the report of one process, our own exit codes and one sentence, also when a process is killed."""

import json
import math
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from commands import ATTN, PLAIN, attn, files_in
from processes import children, environment, outcomes, started
from small_checkpoints import model_of

from attncli.limits import MEMORY

MODEL = "random:gpt2?layers=1&width=16&heads=2"
LINE = ("inspect-model", MODEL, "--random-tokens", "12", "--samples", "4", "--metric", "sink")

HELD = """
import os, signal

def replace(old, new, real=os.replace):
    real(old, new)
    if str(new).endswith(".pt"):
        signal.pause()

os.replace = replace
"""
"""Every process stands still once it has kept its first result."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows_of(path: str) -> object:
    return json.loads(Path(path).read_text())["rows"]


@pytest.mark.slow
def test_two_processes_make_the_report_of_one_and_5_means_no_baseline(tmp_path: Path) -> None:
    """The run itself ends with 0, which `attn ci` has to know before it looks for the baseline."""
    Path("attn.toml").write_text(
        f'[checks.two]\ncommand = "{" ".join(LINE)} --processes 2"\n'
        'baseline = "none.json"\nfail-on = ["sink:1"]\n'
    )
    ran = subprocess.run(
        [*ATTN, "ci", "--config", "attn.toml", "--keep", "kept", "-q"],
        env=environment(), check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 5, ran.stderr
    assert attn(*LINE, "-o", "one.json").code == 0
    assert rows_of("kept/two.json") == rows_of("one.json")
    assert files_in(tmp_path) == ["attn.toml", "kept", "one.json"]


ENDS = {
    0: ((*LINE, "--fail-if", "sink > 2"), "one.json"),
    1: ((*LINE, "--fail-if", "sink > -1"), "FAIL  sink > -1"),
    2: ((*LINE, "--layers", "7"), "layer 7 has no attention: there is some in 0."),
    3: (("inspect-model", "./broken", *LINE[2:]), "holds NaN"),
    4: (("inspect-model", MODEL, "--random-tokens", "900", "--metric", "sink"), "are free"),
}
"""What only the processes find out, and the sentence of theirs that is heard."""


@pytest.mark.slow
@pytest.mark.parametrize("code", ENDS)
def test_every_exit_code_is_seen_from_two_processes(code: int, tmp_path: Path) -> None:
    """5 and a killed process are seen above and below."""
    line, said = ENDS[code]
    if code == 3:
        model = model_of("GPT2LMHeadModel")
        torch.nn.init.constant_(model.transformer.h[0].mlp.c_fc.weight, math.nan)
        model.save_pretrained("broken")
    env = environment(**({MEMORY: str(2**20)} if code == 4 else {}))
    words = [*ATTN, *line, "--processes", "2", "-o", "one.json"]
    ((ended, out, err),) = outcomes([started(words, env, tmp_path)])
    assert (ended, out) == (code, ""), err
    assert err.count(said) == 1
    assert "Traceback" not in err
    assert Path("one.json").exists() == (code < 2)


@pytest.mark.slow
def test_a_killed_process_is_4_and_the_same_command_goes_on(tmp_path: Path) -> None:
    """Then its gate fails, which is 1, in one sentence each and nothing of torch's."""
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "sitecustomize.py").write_text(HELD)
    line = [*ATTN, *LINE, "--processes", "2", "--fail-if", "sink > -1", "-o", "r.json"]
    env = environment()
    held = {**env, "PYTHONPATH": f"{tmp_path / 'held'}{os.pathsep}{env['PYTHONPATH']}"}
    process = started(line, held, tmp_path)
    while len(list(tmp_path.glob("r.json.parts/*.pt"))) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(children(process.pid)[1], signal.SIGKILL)
    ((code, out, err),) = outcomes([process])
    assert (code, out) == (4, "")
    assert err == "attn: a process of this run was lost (SIGKILL; out of memory?): what was finished is kept in r.json.parts, and the same command goes on from there.\n"  # fmt: skip
    ((code, out, err),) = outcomes([started(line, env, tmp_path)])
    assert (code, out) == (1, "")
    assert "2 results are left of a run that did not finish" in err
    assert "FAIL  sink > -1" in err
    assert files_in(tmp_path) == ["held", "r.json"]


@pytest.mark.slow
def test_one_process_keeps_its_parts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after the second text, it goes on with the third."""
    from attncli.processes import finished_parts

    real, kept = finished_parts.write, []

    def interrupted(path: Path, result: object) -> None:
        real(path, result)
        kept.append(path)
        if len(kept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(finished_parts, "write", interrupted)
    stopped = attn(*LINE, "-o", "r.json")
    assert (stopped.code, stopped.err) == (130, "attn: interrupted.\n")
    assert files_in(tmp_path) == ["r.json.parts"]
    resumed = attn(*LINE, "-o", "r.json")
    assert (resumed.code, len(kept)) == (0, 4)
    assert "2 results are left" in resumed.err
    assert attn(*LINE, "-o", "s.json").code == 0
    assert rows_of("r.json") == rows_of("s.json")
    assert files_in(tmp_path) == ["r.json", "s.json"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("rank-collapse", "--processes", "2"), 2, "divides the texts of a model"),
        (("rank-collapse", "--task", "circle", "--processes", "2"), 2, "divides the texts of a model"),
        (("inspect-model", MODEL, "--processes", "0"), 2, "it must be at least 1"),
        (("inspect-model", MODEL, "--processes", "2", "--top", "0"), 2, "--top 0: it must be at least 1"),
        (("inspect-model", "./nothing", "--processes", "2"), 3, "./nothing"),
    ],
)  # fmt: skip
def test_what_can_be_refused_is_refused_before_any_process(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, said: str
) -> None:
    monkeypatch.setattr("attncli.processes.started.run_in_processes", None)
    outcome = attn(*arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_under_a_launcher_the_processes_are_there_already(monkeypatch: pytest.MonkeyPatch) -> None:
    import commands

    meeting = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    monkeypatch.setattr(commands, "PLAIN", {**PLAIN, **meeting})
    outcome = attn("inspect-model", MODEL, "--processes", "2")
    assert outcome.code == 2
    assert "2 were started already: leave it out" in outcome.err


def test_a_rehearsal_starts_nothing(tmp_path: Path) -> None:
    Path("attn.toml").write_text("[inspect-model]\nprocesses = 2\n[rank-collapse]\nprocesses = 2\n")
    shown = attn("config", "show", "--config", "attn.toml", "inspect-model", MODEL)
    assert (shown.code, shown.out.count("applies")) == (0, 1)
    shown = attn("config", "show", "--config", "attn.toml", "rank-collapse")
    assert "left out: --processes 2 divides the texts of a model" in shown.out
