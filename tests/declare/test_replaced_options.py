"""Old spellings end with one sentence that names the command that does it now."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import attn

import attncli
from attncli.declare.command_table import COMMANDS, import_command_function
from attncli.declare.replaced_options import MOVED, MOVED_FUNCTIONS
from attncli.errors import UsageError
from attncli.python.public_functions import make_public_function

EVERY = pytest.mark.parametrize(("command", "option"), MOVED)


@EVERY
def test_a_moved_option_is_refused_on_the_command_line(command: str, option: str) -> None:
    flag = f"--{option.replace('_', '-')}"
    outcome = attn(command, flag)
    said = f"attn: {flag} has become a command: {MOVED[command, option].line}.\n"
    assert outcome == (2, "", said)


@EVERY
def test_a_moved_option_is_refused_in_a_file_with_its_line(
    command: str, option: str, tmp_path: Path
) -> None:
    file, key = tmp_path / "attn.toml", option.replace("_", "-")
    file.write_text(f"[{command}]\n{key} = 1\n")
    outcome = attn("config", "show", "--config", str(file))
    said = f"attn: {file}, line 2: --{key} has become a command: {MOVED[command, option].line}.\n"
    assert outcome == (2, "", said)


@EVERY
def test_a_moved_option_is_refused_in_the_environment(
    command: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"ATTN_{command}_{option}".replace("-", "_").upper()
    monkeypatch.setattr(commands, "PLAIN", {**commands.PLAIN, variable: "1"})
    outcome = attn("config", "show")
    assert outcome.code == 2
    assert outcome.err.startswith(f"attn: {variable}: --")


def function_in_python(command: str) -> Callable[..., Any]:
    return make_public_function(import_command_function(command), "attncli")


@EVERY
def test_a_moved_keyword_is_refused_in_python(command: str, option: str) -> None:
    with pytest.raises(UsageError) as refused:
        function_in_python(command)(**{option: "1"})
    assert str(refused.value) == f"{option}= has become a function: {MOVED[command, option].call}."


@EVERY
def test_nothing_that_has_moved_is_still_there(command: str, option: str) -> None:
    assert option not in inspect.signature(function_in_python(command)).parameters


def test_the_new_commands_are_there() -> None:
    """Of whatever a sentence names, at a terminal and in Python."""
    for moved in MOVED.values():
        words = moved.line.split()[1:]
        assert words[0] in COMMANDS or f"{words[0]} {words[1].rstrip(',')}" in COMMANDS, moved
        name = moved.call.removeprefix("attn.").partition("(")[0]
        place, _, last = name.rpartition(".")
        assert hasattr(getattr(attncli, place) if place else attncli, last), moved


@pytest.mark.parametrize("name", MOVED_FUNCTIONS)
def test_a_function_with_another_name_says_so(name: str) -> None:
    with pytest.raises(AttributeError, match=MOVED_FUNCTIONS[name]):
        getattr(attncli, name)
