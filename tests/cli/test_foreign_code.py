"""Switches that run code which comes with a checkpoint count on the command line alone; nothing of a folder decides them."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import commands
import pytest
import typer.main
from commands import attn

from attncli.cli.app import app
from attncli.cli.config.foreign_code import SWITCHES, all_words
from attncli.models.loading.load_options import LoadOptions

ROOT: Any = typer.main.get_command(app)
HELD = [
    (name, option.opts[0].removeprefix("--"))
    for name, command in ROOT.commands.items()
    for option in command.params
    if option.opts[0].removeprefix("--") in SWITCHES
]
"""Every command that has such a switch."""
WAYS = ("pyproject", "config", "ATTN_CONFIG", "environment")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "PLAIN", dict(commands.PLAIN))


def setting(way: str, command: str, option: str, value: str) -> list[str]:
    """Sets an option somewhere; returns what the command line needs for it."""
    table = f"[{command}]\n{option} = {value}\n"
    environment: Any = commands.PLAIN
    if way == "pyproject":
        Path("pyproject.toml").write_text(f"[tool.attn.{table[1:]}")
        return []
    if way == "environment":
        name = f"ATTN_{command}_{option}".replace("-", "_").upper()
        environment[name] = value.strip("'\"")
        return []
    Path("attn.toml").write_text(table)
    if way == "config":
        return ["--config", "attn.toml"]
    environment["ATTN_CONFIG"] = "attn.toml"
    return []


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("command", "switch"), HELD)
def test_a_switch_that_is_set_elsewhere_is_refused(command: str, switch: str, way: str) -> None:
    """By every command, and nothing is loaded; the sentence says where it stands and where it counts."""
    options = setting(way, command, switch, "true")
    for words in ([command, "./model"], ["list"], ["config", "show"]):
        outcome = attn(*words, *options)
        assert (outcome.code, outcome.out) == (2, "")
        assert f"--{switch} lets a checkpoint run code, so it counts on the command line alone" in outcome.err  # fmt: skip
        assert {"pyproject": "pyproject.toml, line 2", "environment": "ATTN_"}.get(way, "attn.toml, line 2") in outcome.err  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("switch", SWITCHES)
def test_a_command_line_inside_a_setting_holds_none_either(switch: str, way: str) -> None:
    for text in (f"inspect-model --{switch}", f"inspect-model '--{switch[:5]}'{switch[5:]}"):
        options = setting(way, "compare", "by", f'"{text}"')
        outcome = attn("compare", "./a", "./b", *options)
        assert (outcome.code, f"--{switch} lets a checkpoint run code" in outcome.err) == (2, True)


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize(
    "command",
    [
        "inspect-model ./model --{}",
        "attn rank-collapse ./model --variants SAN --{}",
        "sweep inspect-model --model ./model --{}",
        "compare ./a ./b --by 'inspect-model --{}'",
        "compare ./a ./b --by=\"paths '--{}'\"",
        "compare ./a ./b --by 'inspect-model \"--{}\"'",
        "paths ./model '--'{}",
        "ci --config other.toml --{}",
    ],
)
def test_checks_run_none(command: str, switch: str) -> None:
    """A check is written in the file that came with the folder; `attn ci` is all that was typed."""
    text = command.format(switch)
    Path("attn.toml").write_text(f"[checks.a]\ncommand = '''{text}'''\n")
    outcome = attn("ci", "--config", "attn.toml")
    assert (outcome.code, outcome.out) == (2, "")
    assert f"attn.toml, line 2: --{switch} lets a checkpoint run code" in outcome.err
    assert "run that command by itself with -o report.json" in outcome.err


def test_on_the_command_line_they_count() -> None:
    for command, switch in HELD:
        named = ["--heads"] if command == "approximate" else []
        outcome = attn(command, *named, "./model", f"--{switch}")
        assert (outcome.code, "there is no folder ./model" in outcome.err) == (3, True)


def test_every_switch_that_trusts_a_checkpoint_is_one_of_these() -> None:
    """What the loader takes for false until it is said, other than where the model comes from and how it is laid out."""
    harmless = {"offline", "tensor_parallel", "allow_missing"}
    trusting = {field.name.replace("_", "-") for field in dataclasses.fields(LoadOptions) if field.default is False}  # fmt: skip
    assert trusting - {name.replace("_", "-") for name in harmless} == set(SWITCHES)


@pytest.mark.parametrize("text", ["a 'b", "", "a b 'c d'", "--x='--y z'"])
def test_words_inside_words_are_found_whatever_the_quotes(text: str) -> None:
    found = list(all_words(text))
    assert found[0] == text
    assert text.count("'") % 2 or set(shlex.split(text)) <= set(found)


@pytest.mark.slow
@pytest.mark.real_runs
@pytest.mark.parametrize("command", ["ci", "sweep", "compare"])
def test_runs_that_attn_starts_import_nothing_of_the_folder(command: str) -> None:
    """`python -m` would look for every module in the working folder first."""
    for name in ("json.py", "numpy.py", "torch.py", "typer.py", "attncli.py"):
        Path(name).write_text("open('was-run', 'w').close()\n")
    Path("attn.toml").write_text("[checks.a]\ncommand = 'rank-collapse --layers 1 --seeds 1'\n")
    attn("generate", "network", "--layers", "1", "--tokens", "4", "-o", "net.safetensors")
    words = {
        "ci": ["ci", "--config", "attn.toml"],
        "sweep": ["sweep", "rank-collapse", "--glob", "*.safetensors"],
        "compare": ["compare", "net.safetensors", "net.safetensors", "--by", "rank-collapse"],
    }[command]
    outcome = attn(*words)
    assert not Path("was-run").exists()
    assert outcome.code == 0, outcome.err
