"""An option that holds one value refuses a second, in every command: one of the two would vanish without a word."""

from itertools import product
from typing import Any

import pytest
from commands import ONE, attn

from attncli.cli.app import build_app


def commands(command: Any, path: tuple[str, ...] = ()) -> Any:
    yield path, command
    for name, member in getattr(command, "commands", {}).items():
        yield from commands(member, (*path, name))


SINGLE = [
    (path, option)
    for path, command in commands(build_app())
    for option in command.params
    if option.param_type_name == "option" and not option.multiple and not option.is_eager
]


def given(option: Any, name: str) -> list[str]:
    return [name] if option.is_flag else [f"{name}=1"] if name.startswith("--") else [name, "1"]


@pytest.mark.parametrize("path", sorted({path for path, _ in SINGLE}), ids=" ".join)
def test_a_second_value_is_refused_by_the_options_name(path: tuple[str, ...]) -> None:
    """By every spelling: --output and -o, --skip and --no-skip."""
    for option in (option for its, option in SINGLE if its == path):
        for first, second in product([*option.opts, *option.secondary_opts], repeat=2):
            outcome = attn(*path, *given(option, first), *given(option, second))
            assert (outcome.code, outcome.out) == (2, ""), (first, second)
            assert outcome.err.startswith(f"attn: {option.opts[0]}")
            assert "is given twice" in outcome.err


def test_every_command_has_such_options_and_some_have_others() -> None:
    assert {path for path, _ in SINGLE} >= {("rank-collapse",), ("generate", "maps"), ("sweep",), ("ci",)}  # fmt: skip
    for several in (
        ["--metric", "stable_rank"],
        ["--variants", "SAN"],
        ["--fail-if", "order > 99"],
    ):
        assert attn("rank-collapse", *ONE, *several, *several).code == 0


@pytest.mark.slow
def test_a_line_that_is_still_being_typed_may_hold_anything() -> None:
    from commands import attn_program

    words = "attn rank-collapse --seeds 1 --seeds 2 --metric st"
    env = {"_ATTN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "7"}
    assert "stable_rank" in attn_program(env=env).stdout


def test_what_a_sweep_hands_on_counts_too() -> None:
    outcome = attn("sweep", "rank-collapse", "--model", "random:bert", "--variants=SAN", "--tokens=3", "--tokens", "4")  # fmt: skip
    assert (outcome.code, "--tokens is given twice" in outcome.err) == (2, True)
