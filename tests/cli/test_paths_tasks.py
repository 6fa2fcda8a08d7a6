"""`attn reproduce memorise`, `sort` and `convex-hull` at the terminal: what it prints and refuses, and how it goes on where it was stopped."""

import json
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from commands import attn, attn_program
from safetensors.numpy import load_file
from warm import Warm, environment

QUICK = ("reproduce", "memorise", "--layers", "2", "--width", "8", "--train-steps", "3")


@pytest.mark.slow
def test_the_answer_comes_first_and_every_number_has_its_table() -> None:
    outcome = attn(*QUICK, "--seeds", "2", "--paths-per-sum", "2,5")
    assert outcome.code == 0
    headline, *rest = outcome.out.splitlines()
    assert headline.startswith("memorise: ")
    assert "; by the entire model: " in headline
    header = next(line for line in rest if line.lstrip().startswith("length"))
    columns = ("frozen 2", "frozen 5", "frozen all", "rerun 2", "rerun 5")
    assert header.split() == " ".join(("length", *columns)).split()
    for word in ("entire model", "majority label of place", "short_minus_long", "accuracy_up_to"):
        assert word in outcome.out
    assert "it has not learned its task" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("srot",), "Did you mean 'sort'?"),
        (("sort", "--evaluate", "frozn"), "did you mean 'frozen'?"),
        (("sort", "--paths-per-sum", "0"), "from 1 to 1,000"),
        (("sort", "--paths-per-sum", "5,x"), "--paths-per-sum x must be a whole number"),
        (("sort", "--train-steps", "0"), "--train-steps must be from 1 to 1,000,000"),
        (("sort", "--layers", "0"), "--layers must be from 1 to"),
        (("sort", "--heads", "5"), "--heads 5 does not divide --width 48"),
        (("sort", "--seeds", "0"), "--seeds from 1 to"),
        (("sort", "--sample", "3"), "no such option: --sample"),
        (("sort", "--count"), "no such option: --count"),
        (("sort", "--tokens", "9"), "no such option: --tokens"),
        (("sort", "--mlp-width", "9", "--norm", "rms"), "no such option: --mlp-width"),
        (("sort", "--no-skip"), "no such option: --no-skip"),
        (("sort", "--text", "x"), "no such option: --text"),
        (("sort", "--sequences", "9"), "no such option: --sequences"),
        (("sort", "random:bert"), "unexpected extra argument"),
        (("sort", "--fail-if", "acuracy < 1"), "did you mean 'accuracy'?"),
        (("sort", "--save-training", __file__), "cannot write"),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, tuple) else "",
)
def test_usage_errors_say_what_is_valid(arguments: tuple[str, ...], said: str) -> None:
    outcome = attn("reproduce", *arguments)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.out == ""


def test_what_cannot_fit_is_refused_before_it_runs() -> None:
    outcome = attn("reproduce", "sort", "--width", "200000", "--layers", "50")
    assert (outcome.code, outcome.out) == (4, "")
    assert "lower --width, --layers or --paths-per-sum" in outcome.err


@pytest.mark.slow
def test_gates_name_the_sum_and_the_length() -> None:
    once = (*QUICK, "--seeds", "1", "--evaluate", "rerun", "--paths-per-sum", "2")
    fails = ("--fail-if", "accuracy[rerun 2, length=1] < 2", "--fail-if", "accuracy[length=9] < 2")
    assert attn(*once, *fails[:2]).code == 1
    assert "there are 0, 1, 2" in attn(*once, *fails).err
    assert attn(*once, "--fail-if", "accuracy[entire model] > 1").code == 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    same = (*QUICK, "--seeds", "2", "--paths-per-sum", "2", "--format", "json")
    one, other = attn_program(*same).stdout, attn(*same).out
    assert one == other
    report = json.loads(one)
    assert report["seeds"] == [0, 1]
    assert report["source"]["network"]["width"] == 8
    assert report["source"]["training"]["steps"] == 3
    later = json.loads(attn(*same[:-4], "--seed", "1", *same[-4:]).out)
    assert rows(later) != rows(report)


def rows(report: Any) -> Any:
    return report["rows"]


@pytest.mark.slow
def test_trainings_are_kept_and_used_again(tmp_path: Path) -> None:
    kept = (*QUICK, "--seeds", "2", "--paths-per-sum", "2", "--save-training", str(tmp_path / "a"))
    first = attn(*kept, "--format", "json")
    assert {path.name for path in (tmp_path / "a").iterdir()} == {
        "memorise-seed0.safetensors",
        "memorise-seed1.safetensors",
    }
    assert rows(json.loads(attn(*kept, "--format", "json").out)) == rows(json.loads(first.out))
    other = attn(*kept, "--heads", "1")
    assert other.code == 2
    assert "holds another training: heads is 2 there and 1 here" in other.err


HASTY = """
import os, signal
from attncli.commands.reproduce import training_loop

def keep(saved, *given, keep=training_loop.SavedTraining.save_training_state):
    keep(saved, *given)
    training_loop.SavedTraining.save_training_state, training_loop.EVERY = keep, 2.0
    os.kill(os.getpid(), signal.SIGSTOP)

training_loop.SavedTraining.save_training_state, training_loop.EVERY = keep, 0.05
from attncli.cli.main import main
main()
"""
"""The program, but that it keeps its training soon, and then stands still until it is told to go on."""


class Running:
    """A training in a process of its own, and where it is kept."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "memorise-seed0.safetensors"
        given = ("--layers", "1", "--width", "8", "--train-steps", "600", "--seeds", "1")
        self.arguments = ("reproduce", "memorise", *given, "--paths-per-sum", "2")
        self.arguments += ("--format", "json", "--save-training", str(folder))

    def ended_by(self, number: signal.Signals) -> tuple[int | None, str]:
        """As soon as it has kept something new."""
        process = Warm(HASTY, self.arguments, environment(), self.file.parent.parent)
        while not is_stopped(process.pid):
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        for each in (number, signal.SIGCONT):
            process.send_signal(each)
        _, said = process.communicate()
        return process.returncode, said


def is_stopped(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


@pytest.mark.slow
def test_what_is_killed_or_interrupted_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    whole, broken = Running(tmp_path / "whole"), Running(tmp_path / "broken")
    assert broken.ended_by(signal.SIGKILL)[0] == -signal.SIGKILL
    code, said = broken.ended_by(signal.SIGINT)
    assert code == 130
    assert "of 600, kept in " in said
    assert "the same command goes on from there" in said
    found = [json.loads(attn(*one.arguments).out) for one in (whole, broken)]
    assert rows(found[0]) == rows(found[1])
    assert training_in(whole.file) == training_in(broken.file)


def training_in(file: Path) -> dict[str, list[float]]:
    return {name: array.ravel().tolist() for name, array in load_file(file).items()}
