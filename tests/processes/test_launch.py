"""Who a process is among several, from the environment alone."""

import subprocess
import sys

import pytest

from attncli.cli import app  # noqa: F401 (it enrols the commands)
from attncli.cli.command_tree import command_words_of_context, parse_command
from attncli.cli.run_in_distributed_processes import SHARED, can_distribute_command
from attncli.distributed_ranks import (
    ALONE,
    OWN,
    DistributedLaunch,
    read_launch_environment,
    remove_rank_variables,
)
from attncli.processes.divide_work_over_ranks import (
    divide_work_between_ranks,
    list_item_indices_of_rank,
)

MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({}, ALONE),
        ({"RANK": "1", "WORLD_SIZE": "2"}, ALONE),
        ({**MEETING, "RANK": "1", "WORLD_SIZE": "2"}, DistributedLaunch(1, 2, 0)),
        (
            {**MEETING, "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"},
            DistributedLaunch(5, 8, 1),
        ),
        ({**MEETING, "RANK": "0", "WORLD_SIZE": "1"}, DistributedLaunch(0, 1, 0)),
        ({**MEETING, "RANK": "x", "WORLD_SIZE": "2"}, ALONE),
    ],
)
def test_a_rank_is_one_where_all_is_said_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], meant: DistributedLaunch
) -> None:
    for name in OWN:
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert read_launch_environment() == meant


def test_a_process_started_by_a_rank_is_none() -> None:
    inherited = {**MEETING, "RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a", "HOME": "/"}
    assert remove_rank_variables(inherited) == {"HOME": "/"}


def test_shares_are_every_nth_item(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(list_item_indices_of_rank("abcde")) == [0, 1, 2, 3, 4]
    assert divide_work_between_ranks([1, 2], lambda item: 2 * item, str) == [2, 4]
    for name, value in {**MEETING, "RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    assert list(list_item_indices_of_rank("abcde")) == [1, 3]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("inspect-model gpt2", "inspect-model"),
        ("--debug --config attn.toml sweep rank-collapse", "sweep"),
        ("--config=a.toml check rank-collapse", "check"),
        ("paths --config attn.toml --text --no-such gpt2", "paths"),
        ("rank-collapse gpt2 --layers two --sweep", "rank-collapse"),
        ("sensitivity gpt2", "sensitivity"),
        ("attribute gpt2", "attribute"),
        ("dispersion gpt2", "dispersion"),
        ("inspect-model --no-such --plot", "inspect-model"),
        ("generate maps --map uniform", "generate maps"),
        ("generate", "generate"),
        ("no-such", ""),
        ("--help", ""),
        ("--version", ""),
        ("", ""),
    ],
)
def test_the_command_of_a_line(line: str, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    """By the parser itself, which says and refuses nothing here."""
    parsed = parse_command(line.split())
    assert " ".join(command_words_of_context(parsed)) == command
    assert can_distribute_command(parsed) == (command in SHARED)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("task", ["circle", "memorise", "sort", "convex-hull", "rank-heads"])
@pytest.mark.parametrize("more", ["--plot", "--plot curves.png"])
def test_a_training_is_not_shared_out(task: str, more: str) -> None:
    assert not can_distribute_command(parse_command(f"reproduce {task} {more}".split()))


def test_being_one_of_several_costs_no_torch() -> None:
    code = (
        "import attncli.cli.main, attncli.distributed_ranks, sys; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
