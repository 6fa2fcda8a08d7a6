"""Whatever decides a number is in the digest: every option, wherever it is set, and every file that it names."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import commands
import pytest
import typer.main
from commands import attn
from small_checkpoints import saved

from attncli.analysis import run_fingerprint as module
from attncli.analysis.run_fingerprint import WITHOUT_EFFECT, WRITTEN, compute_run_fingerprint
from attncli.cli.app import build_app
from attncli.cli.config.settings import resolve_all_option_values
from attncli.declare.command_table import MODEL_COMMANDS

ROOT: Any = build_app()
SETTLED = (*WITHOUT_EFFECT, *WRITTEN, "help")


def deciding() -> Iterator[tuple[str, Any]]:
    """Every option of every swept command, but those that are known to decide nothing."""
    for command in MODEL_COMMANDS:
        for option in ROOT.commands[command].params:
            if option.param_type_name == "option" and option.name not in SETTLED:
                yield command, option


def takes_text(option: Any) -> bool:
    """Whether a file's name could stand there; else it takes a number."""
    context = typer.Context(ROOT)
    try:
        option.process_value(context, ["x"] if option.multiple else "x")
    except Exception:
        return False
    return True


FLAGS = [(command, option) for command, option in deciding() if option.is_flag]
WORDS = [
    (command, option)
    for command, option in deciding()
    if not option.is_flag and takes_text(option) and not option.required
]
NUMBERS = [
    (command, option)
    for command, option in deciding()
    if not option.is_flag and not takes_text(option)
]


def each(cases: list[tuple[str, Any]]) -> Any:
    names = [f"{command} {option.opts[0]}" for command, option in cases]
    return pytest.mark.parametrize(("command", "option"), cases, ids=names)


NEEDED = {"attribute": ("--token", "0"), "dispersion": ("--lengths", "4:8")}
"""Options that a command cannot do without."""


def digest(command: str, *words: str) -> str:
    needed = NEEDED.get(command, ())
    if needed and any(word.partition("=")[0] == needed[0] for word in words):
        needed = ()
    return compute_run_fingerprint(
        command, resolve_all_option_values([command, "random:bert?tiny", *needed, *words])
    )


@each(FLAGS)
def test_every_flag_counts(command: str, option: Any) -> None:
    assert digest(command, option.opts[0]) != digest(command, *option.secondary_opts[:1])


@each(NUMBERS)
def test_every_number_counts(command: str, option: Any) -> None:
    assert digest(command, option.opts[0], "1") != digest(command, option.opts[0], "2")


@pytest.mark.slow
@each(WORDS)
def test_the_content_of_every_file_that_an_option_names_counts_wherever_it_is_set(
    command: str, option: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named as it is or behind an @, by turns. Not its size or its time, which stay; on the command line, in the environment, in the configuration."""
    monkeypatch.chdir(tmp_path)
    at = "@" if len(command + option.opts[0]) % 2 else ""
    Path("other.toml").write_text(f"[{command}]\n{option.opts[0].removeprefix('--')} = '{at}named'\n")  # fmt: skip
    variable = f"ATTN_{command}_{option.opts[0].removeprefix('--')}".replace("-", "_").upper()

    def digests() -> list[str]:
        found = [digest(command, f"{option.opts[0]}={at}named")]
        for name, value in ((variable, f"{at}named"), ("ATTN_CONFIG", "other.toml")):
            with monkeypatch.context() as patch:
                patch.setenv(name, value)
                found.append(digest(command))
        return found

    Path("named").write_text("one")
    before = digests()
    assert len(set(before)) == 1
    assert digest(command) not in before
    Path("named").write_text("two")
    os.utime("named", ns=(1, 1))
    assert set(digests()).isdisjoint(before)
    Path("named").write_text("one")
    os.utime("named", ns=(5, 5))
    assert digests() == before


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "new.json"])
def test_every_file_of_a_models_folder_counts(name: str, tmp_path: Path) -> None:
    saved("BertModel", tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    options = resolve_all_option_values(["inspect-model", str(tmp_path)])
    before = compute_run_fingerprint("inspect-model", options)
    assert compute_run_fingerprint("inspect-model", options) == before
    path = tmp_path / name
    content = path.read_bytes() if path.exists() else b" "
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert compute_run_fingerprint("inspect-model", options) != before


@pytest.mark.slow
def test_what_a_trainer_leaves_and_what_is_written_do_not_count(tmp_path: Path) -> None:
    saved("BertModel", tmp_path)
    options = resolve_all_option_values(["inspect-model", str(tmp_path), "--save-maps", str(tmp_path.parent / "m.safetensors")])  # fmt: skip
    before = compute_run_fingerprint("inspect-model", options)
    (tmp_path / "optimizer.pt").write_text("moments")
    (tmp_path.parent / "m.safetensors").write_text("maps")
    assert compute_run_fingerprint("inspect-model", options) == before
    for shown in (["-q"], ["--plot"], ["--format", "csv"], ["--no-progress"]):
        assert digest("paths", *shown) == digest("paths")


@pytest.mark.parametrize("library", ["attncli", "torch", "transformers", "tokenizers", "safetensors", "scipy", "numpy"])  # fmt: skip
def test_every_library_counts(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, version = digest("paths"), module.version
    module.library_versions.cache_clear()
    monkeypatch.setattr(module, "version", lambda name: "9.9" if name == library else version(name))
    assert digest("paths") != before
    module.library_versions.cache_clear()


def test_switches_of_foreign_code_count_too() -> None:
    for switch in ("--allow-pickle", "--trust-remote-code"):
        assert digest("paths", switch) != digest("paths")


def test_a_report_of_a_model_names_all_that_ran_it() -> None:
    outcome = attn("inspect-model", "random:bert?tiny", "--random-tokens", "8", "--format", "json")
    said = json.loads(outcome.out)["environment"]
    assert said.keys() >= {"attn", "python", "numpy", "torch", "transformers", "tokenizers", "safetensors", "scipy"}  # fmt: skip
    from importlib.metadata import version

    for name in ("numpy", "transformers", "tokenizers", "safetensors", "scipy"):
        assert said[name] == version(name)
    assert said["torch"].partition("+")[0] == version("torch").partition("+")[0]


@pytest.mark.slow
def test_a_report_without_a_model_names_no_library_of_models() -> None:
    """In a process of its own: here others have imported torch long since."""
    done = commands.attn_program("rank-collapse", *commands.ONE, "--format", "json")
    assert set(json.loads(done.stdout)["environment"]) == {"attn", "python", "numpy", "machine"}
