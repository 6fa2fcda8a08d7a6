"""Options that run code, write or delete count on the command line alone; nothing of a folder decides them."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import SMALL, attn, files_in
from test_defaults import sample

from attncli.cli.app import build_app
from attncli.cli.command_tree import iterate_commands
from attncli.cli.config.command_line_only_options import (
    list_command_line_only_flags,
    split_command_line_into_words,
)
from attncli.declare.option_declarations import RUNS_CODE
from attncli.models.loading.load_options import LoadOptions

ROOT: Any = build_app()
OPTIONS = [
    (path, option)
    for path, command in iterate_commands(ROOT, ())
    for option in command.params
    if option.param_type_name == "option" and option.name != "help"
]
"""Every option of every command."""
TYPED_ALONE: Mapping[str, str] = {
    "allow-pickle": "lets a checkpoint run code",
    "trust-remote-code": "lets a checkpoint run code",
    "engine": "hands command lines to other programs and machines",
    "engine-options": "hands command lines to other programs and machines",
    "output": "writes files",
    "plot": "writes files",
    "into": "writes files",
    "keep": "writes files",
    "accept": "writes files",
    "save-maps": "writes files",
    "save-training": "writes files",
    "evict": "deletes files",
}
"""Written down once more: a declaration that gets lost is missed here."""
READS = {
    "approximate --pattern": ("--pattern", "{}"),
    "check --baseline": ("report.json", "--baseline", "{}", "--fail-on", "order:1"),
    "inspect-maps --labels": ("maps.safetensors", "--labels", "{}"),
    "inspect-model --text-file": ("random:bert?tiny", "--text-file", "{}", "--metric", "sink"),
    "inspect-model --token-ids": ("random:bert?tiny", "--token-ids", "@{}", "--metric", "sink"),
    "reproduce memorise --tokens-from": (
        "--train-steps",
        "1",
        "--sequences",
        "1",
        "--length",
        "2",
        "--tokens-from",
        "{}",
    ),
    "sweep --collect": ("--collect", "{}"),
    "sweep --glob": ("--glob", "{}"),
    "sweep --models-file": ("rank-collapse", "--models-file", "{}", "--list-items", "--into", "."),
}
"""Options that may be set anywhere and take the name of a file, which they only read: how each is run."""
SHARED_READS = {"text-file", "token-ids", "pattern", "baseline", "labels", "tokens-from", "models-file", "collect", "glob"}  # fmt: skip
SWITCHES = [name for name, why in TYPED_ALONE.items() if why == RUNS_CODE.why]
WAYS = ("pyproject", "config", "ATTN_CONFIG", "environment")


def spelled(option: Any) -> str:
    name: str = option.opts[0].removeprefix("--")
    return name


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "PLAIN", dict(commands.PLAIN))


def setting(way: str, path: tuple[str, ...], option: str, value: Any) -> list[str]:
    """Sets an option somewhere; returns what the command line needs for it."""
    table = f"[{'.'.join(path)}]\n{option} = {json.dumps(value)}\n"
    environment: Any = commands.PLAIN
    if way == "pyproject":
        Path("pyproject.toml").write_text(f"[tool.attn.{table[1:]}")
        return []
    if way == "environment":
        name = "_".join(("ATTN", *path, option)).replace("-", "_").upper()
        environment[name] = "\n".join(value) if isinstance(value, list) else str(value)
        return []
    Path("attn.toml").write_text(table)
    if way == "config":
        return ["--config", "attn.toml"]
    environment["ATTN_CONFIG"] = "attn.toml"
    return []


def value_of(path: tuple[str, ...], option: Any) -> Any:
    """One that makes sense, and does harm where it may."""
    if option.name in HOSTILE:
        return HOSTILE[option.name]
    try:
        return sample(" ".join(path), option)
    except AssertionError:  # it is a text, and no run of these commands needs one that makes sense
        return "text"


NEEDED = {
    ("approximate",): ("--pattern", "./model:0.0:top=2"),
    ("dispersion",): ("./model", "--lengths", "4:8"),
    ("attribute",): ("./model", "--token", "0"),
}
"""Words that name a model to a command, where MODEL alone is not enough."""
HOSTILE: Mapping[str, Any] = {
    "engine": "submitit:slurm",
    "engine_options": ["comment=a\ntouch was-run\n#"],
    "output": "kept.txt",
    "plot": "kept.png",
    "save_maps": "kept.safetensors",
    "into": ".",
    "keep": ".",
    "list_items": True,
    "fail_on": "sink:2s",
    "family_wise": 0.05,
    "fail_if": "sink > 1",
}


@pytest.mark.parametrize("path", sorted({path for path, _ in OPTIONS}), ids=" ".join)
def test_who_may_set_an_option(path: tuple[str, ...]) -> None:
    """Over all options of all commands: set elsewhere, those of the table are refused by every command, all others stand."""
    for option in (option for its, option in OPTIONS if its == path):
        name = spelled(option)
        words = setting("config", path, name, value_of(path, option))
        outcome = attn("config", "show", *words)
        if name in TYPED_ALONE:
            assert (outcome.code, outcome.out) == (2, "")
            assert f"attn.toml, line 2: {refused(name)}" in outcome.err
        else:
            assert outcome.code == 0, outcome.err
            assert outcome.out.startswith(f"{' '.join(path)} --{name} = ")


def refused(name: str) -> str:
    return f"--{name} {TYPED_ALONE[name]}, so it counts on the command line alone: give it there."


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TYPED_ALONE)
def test_it_is_refused_wherever_it_is_set(name: str, way: str) -> None:
    path, option = next(one for one in OPTIONS if spelled(one[1]) == name)
    outcome = attn("list", *setting(way, path, name, value_of(path, option)))
    assert (outcome.code, outcome.out) == (2, "")
    assert refused(name) in outcome.err
    assert {"pyproject": "pyproject.toml, line 2: ", "environment": "ATTN_"}.get(way, "attn.toml, line 2: ") in outcome.err  # fmt: skip


def test_each_of_them_is_there() -> None:
    assert {spelled(option) for _, option in OPTIONS} >= set(TYPED_ALONE)
    assert set(list_command_line_only_flags()) == {
        *(f"--{name}" for name in TYPED_ALONE),
        "-o",
    }


@pytest.mark.parametrize("line", [("./model",), ("--help",), ("--list-items",)])
def test_commands_of_any_kind_stop_before_their_work(line: tuple[str, ...]) -> None:
    for name in ("sweep", "list", "ci", "compare"):
        options = setting("config", ("sweep",), "engine", "submitit:slurm")
        outcome = attn(name, *line, *options)
        assert (outcome.code, outcome.out) == (2, ""), (name, line)
        assert "--engine hands command lines to other programs" in outcome.err


def test_what_takes_a_file_and_may_be_set_only_reads() -> None:
    """By what help says an option takes, or its type."""
    takes = {
        spelled(option)
        for _, option in OPTIONS
        if any(word in (option.metavar or "") for word in ("FILE", "FOLDER", "DIR"))
        or option.type_descriptor.annotation is Path
    }
    assert takes - set(TYPED_ALONE) <= SHARED_READS
    assert {line.split("--")[1] for line in READS} == SHARED_READS


@pytest.mark.slow
@pytest.mark.parametrize("line", READS)
def test_a_file_that_is_read_stays_what_it_is(line: str, tmp_path: Path) -> None:
    maps = ("--map", "sink", "--tokens", "6", "--heads", "2", "-o", "maps.safetensors")
    assert attn("generate", "maps", *maps).code == 0
    assert attn("rank-collapse", *SMALL, "-q", "-o", "report.json").code == 0
    Path("kept.txt").write_text("1,2,3\n")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    attn(*line.split()[:-1], *(word.format("kept.txt") for word in READS[line]))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("switch", SWITCHES)
def test_a_command_line_inside_a_setting_holds_none_either(switch: str, way: str) -> None:
    for text in (f"inspect-model --{switch}", f"inspect-model '--{switch[:5]}'{switch[5:]}"):
        options = setting(way, ("compare",), "by", text)
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


@pytest.mark.parametrize("words", ["-o x.json", "-qox.json", "--output=x.json", "--save-maps x", "--into=/tmp", "--keep .", "--evict", "--engine local", "--plot x.png"])  # fmt: skip
@pytest.mark.parametrize("around", ["inspect-model ./m {}", "compare ./a ./b --by 'inspect-model {}'", "compare ./a ./b --by='paths {}'", "sweep paths --model ./m {}"])  # fmt: skip
def test_checks_write_and_delete_nothing(around: str, words: str) -> None:
    Path("attn.toml").write_text(f'[checks.a]\ncommand = "{around.format(words)}"\n')
    outcome = attn("ci", "--config", "attn.toml")
    assert (outcome.code, outcome.out, files_in(Path())) == (2, "", ["attn.toml"])
    assert "so it counts on the command line alone: run that command by itself" in outcome.err


def test_a_text_is_no_command_line() -> None:
    """Though words in it look like options."""
    Path("attn.toml").write_text(
        """[inspect-model]\ntext = ["gcc -o main", "-o", "--evict", "a 'quote"]\n"""
    )
    assert attn("config", "show", "--config", "attn.toml").code == 0
    assert (
        split_command_line_into_words("gcc -o main")
        == split_command_line_into_words("paths")
        == split_command_line_into_words("paths 'x")
        == []
    )
    assert split_command_line_into_words("attn paths '-o x'") == ["attn", "paths", "-o x"]


def test_on_the_command_line_they_count() -> None:
    for path, option in OPTIONS:
        if spelled(option) in SWITCHES:
            named = NEEDED.get(path, ("./model",))
            outcome = attn(*path, *named, option.opts[0])
            assert (outcome.code, "there is no folder ./model" in outcome.err) == (3, True)


def test_every_switch_that_trusts_a_checkpoint_is_one_of_these() -> None:
    """What the loader takes for false until it is said, other than where the model comes from and how it is laid out."""
    harmless = {"offline", "tensor_parallel", "allow_missing"}
    trusting = {field.name.replace("_", "-") for field in dataclasses.fields(LoadOptions) if field.default is False}  # fmt: skip
    assert trusting - {name.replace("_", "-") for name in harmless} == set(SWITCHES)


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
