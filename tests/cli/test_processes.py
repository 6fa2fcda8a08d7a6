"""`--processes N`: the report of one process, our own exit codes and one sentence, also when a process is killed."""

import json
import math
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from commands import PLAIN, attn, files_in
from processes import children, outcomes
from small_checkpoints import model_of
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)
from warm import ATTN, Warm, environment

from attncli.errors import LimitError
from attncli.processes import rank_process_launch as started_processes

MODEL = "random:gpt2?layers=1&width=16&heads=2"
LINE = ("inspect-model", MODEL, "--random-tokens", "12", "--samples", "4", "--metric", "sink")

HELD = """
import os, signal

def replace(old, new, real=os.replace):
    real(old, new)
    if str(new).endswith(".pt"):
        while True:  # a signal that is answered elsewhere ends one pause
            signal.pause()

os.replace = replace
"""
"""Every process stands still once it has kept its first result."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def warm_ranks(monkeypatch: pytest.MonkeyPatch) -> list[Warm]:
    """The processes that the launcher starts here take no seconds for imports; another test has real ones."""
    started: list[Warm] = []

    def start(_: SubprocessHandler, args: tuple[str, ...], env: dict[str, str]) -> Warm:
        assert args[:4] == (sys.executable, *started_processes.PROGRAM)
        started.append(Warm(f"import os; os.setsid(); {ATTN}", args[4:], env, Path.cwd()))
        return started[-1]

    monkeypatch.setattr(SubprocessHandler, "_popen", start)
    return started


def rows_of(path: str) -> object:
    return json.loads(Path(path).read_text())["rows"]


@pytest.mark.slow
def test_two_processes_make_the_report_of_one_and_5_means_no_baseline(
    tmp_path: Path, warm_ranks: list[Warm]
) -> None:
    """The run itself ends with 0, which `attn ci` has to know before it looks for the baseline."""
    Path("attn.toml").write_text(
        f'[checks.two]\ncommand = "{" ".join(LINE)} --processes 2"\n'
        'baseline = "none.json"\nfail-on = ["sink:1"]\n'
    )
    assert attn("ci", "--config", "attn.toml", "--keep", "kept", "-q").code == 5
    assert [code for code, *_ in outcomes(warm_ranks)] == [0, 0]
    assert attn(*LINE, "-o", "one.json").code == 0
    assert rows_of("kept/two.json") == rows_of("one.json")
    assert files_in(tmp_path) == ["attn.toml", "kept", "one.json"]


@pytest.mark.slow
def test_what_only_the_processes_find_out_is_one_sentence_of_theirs(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """And no report; what a gate says beside a report is below, once too."""
    model = model_of("GPT2LMHeadModel")
    torch.nn.init.constant_(model.transformer.h[0].mlp.c_fc.weight, math.nan)
    model.save_pretrained("broken")
    outcome = attn("inspect-model", "./broken", *LINE[2:], "--processes", "2", "-o", "one.json")
    out, err = capfd.readouterr()
    assert (outcome.code, outcome.out + outcome.err, out) == (3, "", ""), err
    assert err.count("holds NaN") == 1
    assert "Traceback" not in err
    assert not Path("one.json").exists()


@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 5])
def test_the_code_that_the_processes_end_with_is_ours(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that end so at once, in the place of ours."""
    monkeypatch.setattr(started_processes, "PROGRAM", ("-c", f"raise SystemExit({code})"))
    assert started_processes.run_command_in_rank_processes(2, LINE, None) == code


def test_the_port_is_one_that_the_system_gives_to_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is bound only once the processes have started; where all of those are taken, any will do."""
    free = started_processes.find_free_port()
    assert free in started_processes.OWN_PORTS
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        drawn = [port, free]
        monkeypatch.setattr("random.SystemRandom.sample", lambda *_: drawn)
        assert started_processes.find_free_port() == free
        drawn.remove(free)
        assert started_processes.find_free_port() not in (0, port)


@pytest.mark.parametrize(
    ("codes", "ends"),
    [
        ([3, -signal.SIGTERM], 3),  # ended by the launcher, as it was slower
        ([-signal.SIGTERM, 2], 2),
        ([3, 3], 3),
        ([-signal.SIGTERM], LimitError),
        ([-signal.SIGKILL, 4], LimitError),
        ([4, -signal.SIGKILL], LimitError),
        ([], 0),
    ],
)
def test_a_process_that_was_slower_than_the_first_to_fail_was_not_lost(
    codes: list[int], ends: int | type[LimitError]
) -> None:
    failures = {
        rank: SimpleNamespace(exitcode=code, timestamp=0) for rank, code in enumerate(codes)
    }
    if isinstance(ends, int):
        assert started_processes.combine_exit_codes(failures, None) == ends
    else:
        with pytest.raises(ends, match="was lost"):
            started_processes.combine_exit_codes(failures, None)


@pytest.mark.slow
def test_a_killed_process_is_4_and_the_same_command_goes_on(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Then its gate fails, which is 1, in one sentence each and nothing of torch's."""
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "sitecustomize.py").write_text(HELD)
    line = (*LINE, "--processes", "2", "--fail-if", "sink > -1", "-o", "r.json")
    env = environment()
    held = {**env, "PYTHONPATH": f"{tmp_path / 'held'}{os.pathsep}{env['PYTHONPATH']}"}
    process = Warm(ATTN, line, held, tmp_path)  # what it starts is not warm
    while len(list(tmp_path.glob("r.json.parts/*.pt"))) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(children(process.pid)[1], signal.SIGKILL)
    ((code, out, err),) = outcomes([process])
    assert (code, out) == (4, "")
    assert err == "attn: a process of this run was lost (SIGKILL; out of memory?): what was finished is kept in r.json.parts, and the same command goes on from there.\n"  # fmt: skip
    ranks = request.getfixturevalue("warm_ranks")
    again = attn(*line)
    assert (again.code, again.out) == (1, "")
    theirs = outcomes(ranks)
    assert [out for _, out, _ in theirs] == ["", ""]
    err = again.err + "".join(err for *_, err in theirs)
    assert "2 results are left of a run that did not finish" in err
    assert err.count("FAIL  sink > -1") == 1
    assert "Traceback" not in err
    assert files_in(tmp_path) == ["held", "r.json"]


@pytest.mark.slow
def test_one_process_keeps_its_parts_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted after the second text, it goes on with the third."""
    from attncli.processes import resume_cache

    real, kept = resume_cache.write_cached_result, []

    def interrupted(path: Path, result: object) -> None:
        real(path, result)
        kept.append(path)
        if len(kept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(resume_cache, "write_cached_result", interrupted)
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
        (("reproduce", "circle", "--processes", "2"), 2, "no such option: --processes"),
        (("inspect-model", MODEL, "--processes", "0"), 2, "it must be at least 1"),
        (("inspect-model", MODEL, "--processes", "2", "--top", "0"), 2, "--top 0: it must be at least 1"),
        (("inspect-model", "./nothing", "--processes", "2"), 3, "./nothing"),
    ],
)  # fmt: skip
def test_what_can_be_refused_is_refused_before_any_process(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, said: str
) -> None:
    monkeypatch.setattr("attncli.processes.rank_process_launch.run_command_in_rank_processes", None)
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
