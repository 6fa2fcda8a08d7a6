"""What is promised in words: help, lists, completion, and the set of options as a golden file."""

import importlib
import itertools
import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import commands as test_commands
import pytest
from commands import ATTN, PLAIN, attn, attn_program

import attncli
from attncli.cli import help as help_pages
from attncli.cli.app import build_app, rewrite_arguments_for_typer
from attncli.declare.command_table import COMMANDS as COMMAND_TABLE
from attncli.declare.command_table import GATE
from attncli.guides import list_guides_of_command
from attncli.networks.ablation_variants import SETS, VARIANTS
from attncli.registry import Registry

OPTIONS = Path(__file__).with_name("options.txt")


def commands(
    command: Any = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group with the words that reach it."""
    command = command or build_app()
    yield path, command
    for name, member in getattr(command, "commands", {}).items():
        yield from commands(member, (*path, name))


COMMANDS = list(commands())
LEAVES = [(path, command) for path, command in COMMANDS if not hasattr(command, "commands")]
each_command = pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=[" ".join(path) or "attn" for path, _ in COMMANDS]
)
each_leaf = pytest.mark.parametrize(
    ("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES]
)


def surface() -> Iterator[str]:
    """One line for every argument and option of every command."""
    for path, command in COMMANDS:
        for parameter in command.params:
            names = "/".join([*parameter.opts, *parameter.secondary_opts])
            many = " …" if parameter.multiple or parameter.nargs != 1 else ""
            needed = " required" if parameter.required else ""
            yield f"{' '.join(['attn', *path])} {names}{many}{needed}\n"


def test_the_set_of_options_is_the_golden_file() -> None:
    """A changed option is a changed line of options.txt: write `"".join(surface())` there if it is meant."""
    assert "".join(surface()) == OPTIONS.read_text()


@each_command
def test_help_is_help(path: tuple[str, ...], command: Any) -> None:
    for flag in ("--help", "-h", "--help-all"):
        outcome = attn(*path, flag)
        assert (outcome.code, outcome.err) == (0, "")
        assert outcome.out.startswith(f"Usage: {' '.join(['attn', *path])} ")


@each_command
def test_every_command_says_what_it_answers(path: tuple[str, ...], command: Any) -> None:
    assert command.help
    assert command.help.partition("\n\n")[0].rstrip().endswith((".", "?"))


@each_leaf
def test_every_command_has_examples(path: tuple[str, ...], command: Any) -> None:
    _, _, examples = attn(*path, "--help").out.partition("Examples\n")
    assert any(line.startswith(f"  attn {' '.join(path)}") for line in examples.splitlines())


def options_in(help_text: str) -> set[str]:
    """Names at the beginnings of lines."""
    return set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", help_text, re.MULTILINE))


@each_leaf
def test_help_fits_a_screen_and_help_all_has_every_option(
    path: tuple[str, ...], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty-odd lines of a developer's terminal; what is left out is counted, and is in --help-all."""
    monkeypatch.setattr(test_commands, "PLAIN", {**PLAIN, "COLUMNS": "100"})
    short, whole = attn(*path, "--help").out, attn(*path, "--help-all").out
    assert len(short.splitlines()) <= 46
    named = {p.opts[0] for p in command.params if p.param_type_name == "option"}
    assert named <= options_in(whole)
    assert named & options_in(short) == options_in(short) - {"--help", "--help-all"}
    left_out = len(named - options_in(short))
    said = f"{left_out} more options: {' '.join(['attn', *path])} --help-all\n"
    assert (said in short) == bool(left_out)
    assert short == whole or left_out > 5


@each_leaf
def test_help_shows_the_first_examples_first(
    path: tuple[str, ...], command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the options, and all of them in the whole help."""
    monkeypatch.setattr(test_commands, "PLAIN", {**PLAIN, "COLUMNS": "250"})
    monkeypatch.setattr(help_pages, "WIDEST", 250)
    examples = [f"  {line}" for line in command.epilog.strip().splitlines()]
    for flag, shown in (
        ("--help", examples[: help_pages.FIRST_EXAMPLES]),
        ("--help-all", examples),
    ):
        out = attn(*path, flag).out
        assert "Examples\n" + "\n".join(shown) + "\n" in out
        assert out.index("Examples\n") < out.index(
            "\nOptions\n" if "\nOptions\n" in out else "  --"
        )


@each_command
@pytest.mark.parametrize("columns", [None, 80, 60])
def test_help_is_no_wider_than_the_terminal(
    path: tuple[str, ...], command: Any, columns: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the terminal breaks words; on a pipe, where nobody knows, it is 80. One word may be longer than a line."""
    if columns:
        monkeypatch.setattr(test_commands, "PLAIN", {**PLAIN, "COLUMNS": str(columns)})
    for line in attn(*path, "--help-all").out.splitlines():
        assert len(line) <= (columns or 80) or len(line.split()) <= 3, line


@pytest.mark.parametrize("width", [40, 60, 80, 110])
def test_a_folded_example_is_the_same_for_a_shell(width: int) -> None:
    """With its remark, which is a comment."""
    for _, command in LEAVES:
        for line in command.epilog.strip().splitlines():
            folded = "\n".join(help_pages.wrap_command_example(line, width))
            typed = line.partition("  ")[0]
            assert typed_words(folded) == shlex.split(typed)


def typed_words(text: str) -> list[str]:
    """As a shell that minds comments takes it."""
    return shlex.split(text.replace("\\\n", ""), comments=True)


@each_leaf
def test_every_value_has_a_word(path: tuple[str, ...], command: Any) -> None:
    """`--seeds N`: an option without one reads as a switch."""
    shown = attn(*path, "--help-all").out
    for parameter in command.params:
        if parameter.param_type_name == "option" and not parameter.is_flag:
            assert re.search(rf"^  (?:-\w, |.*, )?{parameter.opts[0]}[ ,].*\S", shown, re.MULTILINE)
            assert not re.search(rf"^  {parameter.opts[0]}(?:$|  )", shown, re.MULTILINE), parameter


def examples() -> Iterator[tuple[str, Any, list[str]]]:
    """Every example with its command and the words after it; what stands after two spaces is a remark."""
    for path, command in LEAVES:
        for line in command.epilog.strip().splitlines():
            typed = shlex.split(line.strip().partition("  ")[0])
            own = itertools.takewhile(lambda word: word not in ("|", ">"), typed)
            words = rewrite_arguments_for_typer(list(own))
            words = [word for word in words if not re.match(r"ATTN_\w+=|--config=", word)]
            if words[1 : len(path) + 1] == list(path):
                yield line, command, words[len(path) + 1 :]


EXAMPLES = list(examples())


@pytest.mark.parametrize(
    ("command", "words"), [each[1:] for each in EXAMPLES], ids=[each[0] for each in EXAMPLES]
)
def test_every_example_can_be_typed(command: Any, words: list[str]) -> None:
    """Its options are there and take these values; nothing is run."""
    context = command.make_context(command.name, list(words))
    assert not context.args


@each_leaf
def test_the_condition_in_the_help_is_of_this_command(path: tuple[str, ...], command: Any) -> None:
    """Whoever copies it gates what this command measures."""
    shown = " ".join(attn(*path, "--help-all").out.split())
    condition = re.search(r"Exit 1 if CONDITION is true: '([^']*)'", shown)
    assert bool(condition) == any(one.name == "fail_if" for one in command.params)
    if condition:
        assert condition[1] == COMMAND_TABLE[" ".join(path)].gate != GATE


def test_examples_are_of_their_own_commands() -> None:
    """But for a few that show what to do with the file that was made."""
    lines = sum(len(command.epilog.strip().splitlines()) for _, command in LEAVES)
    assert lines - 3 <= len(EXAMPLES) <= lines
    assert len(EXAMPLES) > 60


def test_help_names_the_guides_of_its_command() -> None:
    """That of the same name first; a group's guide for its commands."""
    assert attn("paths", "--help").out.splitlines()[-1].startswith("Guides: attn guide paths, ")
    assert attn("generate", "maps", "--help").out.splitlines()[-1] == "Guides: attn guide generate"


@each_leaf
def test_every_command_has_a_guide(path: tuple[str, ...], command: Any) -> None:
    if path != ("guide",):
        assert list_guides_of_command(" ".join(["attn", *path]))


@each_command
def test_every_option_has_help(path: tuple[str, ...], command: Any) -> None:
    for parameter in command.params:
        assert getattr(parameter, "help", None), parameter.opts


@each_command
def test_help_shows_no_python(path: tuple[str, ...], command: Any) -> None:
    out = attn(*path, "--help").out
    assert "None" not in out
    assert "PathLike" not in out


@pytest.mark.parametrize("path", [(), ("generate",)], ids=["attn", "attn generate"])
def test_a_group_alone_shows_its_help_as_it_is(path: tuple[str, ...]) -> None:
    outcome = attn(*path)
    shown = outcome.out + outcome.err
    assert attn(*path, "--help").out in shown
    assert outcome.code in (0, 2)


def test_the_first_help_names_every_command() -> None:
    out = attn("--help").out
    for (name, *rest), _ in COMMANDS[1:]:
        assert rest or f"\n  {name} " in out


REGISTRIES = {
    id(thing): thing
    for module in pkgutil.walk_packages(attncli.__path__, "attncli.")
    if module.ispkg
    for thing in vars(importlib.import_module(module.name)).values()
    if isinstance(thing, Registry)
}


@pytest.mark.parametrize("registry", REGISTRIES.values(), ids=lambda registry: registry.kind)
def test_list_shows_every_entry_with_its_own_first_line(registry: Registry) -> None:
    shown = [" ".join(line.split()) for line in attn("list").out.splitlines()]
    assert registry.names()
    for name in registry.names():
        assert " ".join(f"{name} {registry.summary(name)}".split()) in shown


def test_list_shows_every_variant_and_set() -> None:
    first_words = [line.split()[0] for line in attn("list", "variants").out.splitlines()]
    assert first_words == ["variants", *VARIANTS, *SETS]


def test_list_of_one_kind_is_that_part_of_the_whole() -> None:
    whole = attn("list").out
    for kind in ("metrics", "maps", "formats", "variants"):
        part = attn("list", kind).out
        assert part.startswith(f"{kind}\n")
        assert part in whole


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (("rank-collapse", "--metric", "st"), {"stable_rank"}),
        (("rank-collapse", "--metric", "log10_residual_"), {"log10_residual_norm"}),
        (("rank-collapse", "--variants", "SAN+"), {"SAN+MLP", "SAN+skip"}),
        (("rank-collapse", "--format", "j"), {"json", "jsonl"}),
        (("generate", "maps", "--map", "u"), {"uniform"}),
        (("rank-collapse", "--dtype", "fl"), {"float64", "float32", "float16"}),
        (("rank-collapse", "--mask", ""), {"none", "causal", "window"}),
        (("rank-collapse", "random:roberta-"), {"random:roberta-prelayernorm"}),
        (("inspect-model", "random:gpt_neo"), {"random:gpt_neo", "random:gpt_neox"}),
        (
            ("inspect-model", "./m", "--metric", "sink,qk_tr"),
            {"sink,qk_trace", "sink,qk_trace_square"},
        ),
        (("inspect-model", "./m", "--metric", "rol"), {"roles"}),
        (("inspect-model", "./m", "--sort", "entropy_n"), {"entropy_normalised"}),
        (("inspect-model", "./m", "--sort", "sink:"), {"sink:rising"}),
        (("paths", "--by", ""), {"head", "steps"}),
        (("compare", "a", "b", "--by", "insp"), {"inspect-model"}),
        (("sweep", ""), {"rank-collapse", "inspect-model", "paths"}),
        (("ci", "--config", "attn.toml", "coll"), {"collapse"}),
        (("guide", "rank"), {"rank-collapse"}),
        (("list", "weight"), {"weight-metrics"}),
        (("rank",), {"rank-collapse"}),
        (("rank-collapse", "--init"), {"--init-scale"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_completion(typed: tuple[str, ...], found: set[str], tmp_path: Path) -> None:
    """As the shells ask, by turns. Words that no shell breaks are offered whole."""
    (tmp_path / "attn.toml").write_text('[checks.collapse]\ncommand = "rank-collapse"\n')
    line = " ".join(["attn", *typed])
    shell = "bash" if len(line) % 2 else "zsh"
    env = {"_ATTN_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        env |= {"COMP_WORDS": line, "COMP_CWORD": str(len(typed))}
    else:
        env |= {"_TYPER_COMPLETE_ARGS": line}
    out = attn_program(env=env, cwd=tmp_path).stdout
    shown = re.sub(r'[("\')]', " ", out.replace(r"\\:", ":")).split()
    assert found <= set(shown)
    assert "Traceback" not in out


BASH = r"""
eval "$(_ATTN_COMPLETE=source_bash attn)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_attn_completion attn
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["rank-collapse", "random", ":", "roberta-"], ["roberta-prelayernorm"]),
        (["inspect-model", "./m", "--sort", "sink", ":", "r"], ["rising"]),
        (["inspect-model", "./m", "--sort", "sink", ":"], ["rising"]),
        (["inspect-model", "./m", "--sort", "=", "sink", ":", "r"], ["rising"]),
        (["rank-collapse", "--dtype", "=", "bf"], ["bfloat16"]),
        (["rank-collapse", "--dtype", "bf"], ["bfloat16"]),
    ],
    ids=lambda value: " ".join(value),
)
def test_bash_breaks_words_at_colons(words: list[str], found: list[str], tmp_path: Path) -> None:
    """Through bash itself: only what stands after the last break is replaced."""
    program = tmp_path / "attn"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(ATTN)} "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "--norc", "-c", BASH, "bash", "attn", *words],
        env={**PLAIN, "PATH": f"{tmp_path}:{PLAIN['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == found, done.stderr


def test_completion_imports_nothing_heavy() -> None:
    """A shell asks at every key."""
    code = (
        "import sys; from attncli.options.value_completion import complete_metric_sort_order, complete_random_model_name, list_head_metrics; "
        "assert complete_random_model_name('random:b') and complete_metric_sort_order('q') and list_head_metrics(); "
        "sys.exit(', '.join({'torch', 'transformers', 'scipy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
