"""One text names one thing in every command: what it is, and what this command can do with it."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import ONE, SMALL, attn

from attncli.analysis.source_argument_checks import TAKES
from attncli.cli.parameter_names_as_options import replace_parameters_by_options
from attncli.model_and_file_sources import WORDS, Kind, parse_source

COMMANDS = {
    "attn rank-collapse": ("rank-collapse", "{}", "--offline"),
    "attn rank-collapse --sweep": ("rank-collapse", "{}", "--sweep", "tokens=2:4"),
    "attn paths": ("paths", "{}"),
    "attn count-paths": ("count-paths", "{}"),
    "attn paths --by head": ("paths", "{}", "--by", "head"),
    "attn inspect-model": ("inspect-model", "{}"),
    "attn inspect-maps": ("inspect-maps", "{}"),
    "attn attribute": ("attribute", "{}", "--token", "1"),
    "attn dispersion": ("dispersion", "{}", "--lengths", "2:4"),
    "attn sensitivity": ("sensitivity", "{}"),
    "attn inspect-weights": ("inspect-weights", "{}"),
    "attn head-capacity": ("head-capacity", "{}"),
    "attn head-capacity --head": ("head-capacity", "{}", "--head", "0.0", "--pattern", "previous"),
    "attn verify-fit": ("verify-fit", "{}"),
    "attn check": ("check", "{}"),
    "attn compare": ("compare", "{}", "{}"),
    "attn compare --by rank-collapse": ("compare", "{}", "{}", "--by", "rank-collapse"),
}
"""Every command that takes a SOURCE, and every way in which it reads one."""

FILES: dict[str, Kind] = {
    "net.safetensors": "network",
    "./net": "network",
    "maps.safetensors": "maps",
    "fit.safetensors": "fit",
    "report.json": "report",
    "maps.npz": "pattern",
    "model.safetensors": "weights",
    "weights.bin": "pickle",
    "./gpt2": "other",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real file of every kind."""
    folder = tmp_path_factory.mktemp("sources")
    net = str(folder / "net.safetensors")
    attn("generate", "network", *SMALL[:-2], "-o", net)
    attn("generate", "maps", "--map", "uniform", "--tokens", "4", "-o", str(folder / "maps.safetensors"))  # fmt: skip
    attn("approximate", "--pattern", "previous", "--length", "4", "-o", str(folder / "fit.safetensors"), "-q")  # fmt: skip
    attn("rank-collapse", *ONE, "-q", "-o", str(folder / "report.json"))
    (folder / "net").write_bytes(Path(net).read_bytes())
    np.savez(folder / "maps.npz", maps=np.eye(3))
    from safetensors.numpy import save_file

    save_file({"embeddings.weight": np.eye(3)}, folder / "model.safetensors")
    torch.save(torch.eye(3), folder / "weights.bin")
    (folder / "gpt2").touch()
    return folder


def taken_by(command: str) -> tuple[Kind, ...]:
    """What the command promises to take; an option without promises of its own takes what the command does."""
    kinds = {replace_parameters_by_options(f"`{asker}`").removesuffix(" …").removesuffix(" FILE"): kinds for asker, kinds in TAKES.items()}  # fmt: skip
    if "--by rank" in command:
        return kinds["attn rank-collapse"]
    return kinds.get(command) or kinds[command.partition(" --")[0]]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "kind"), FILES.items())
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_the_same_of_the_same_text(
    command: str, text: str, kind: Kind, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken for what it is, or refused as what it is, with what the command takes."""
    monkeypatch.chdir(filled)
    assert parse_source(text).kind == kind
    outcome = attn(*(part.format(text) for part in COMMANDS[command]))
    named = Path(text).name if "verify" in command else text
    if f"{named} is {WORDS[kind].what}: " in outcome.err:
        assert (outcome.code, outcome.out) == (3, "")
        assert re.search(r"(attn \S+( --\S+( FILE| …)?)?|reading weights) takes ", outcome.err)
    elif kind == "other":  # read as what is wanted, and refused by what is missing
        assert taken_by(command) in (("report",), ("fit",))
        assert (outcome.code, named.removeprefix("./") in outcome.err) == (3, True)
    else:
        assert kind in taken_by(command), outcome.err
        goes_with = f"goes with a model: {text} is {WORDS[kind].what}."
        assert outcome.code == 0 or goes_with in outcome.err or f"leave {text} out" in outcome.err


OF_FILES = ("attn check", "attn compare", "attn verify-fit", "attn inspect-maps")
"""What is named to these is a file always."""


@pytest.mark.slow
@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in OF_FILES])
def test_a_file_called_like_a_model_of_the_hub_is_not_what_is_meant(
    command: str, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the hub's everywhere, and the sentence says how the file is named."""
    monkeypatch.chdir(filled)
    words = [part.format("gpt2") for part in COMMANDS[command] if part != "--offline"]
    if "--by" in words and "compare" in words:
        words[-1] += " --offline"
    else:
        words.append("--offline")
    outcome = attn(*words)
    if "--sweep" in words:
        assert (outcome.code, "gpt2 is a model" in outcome.err) == (2, True)
    else:
        assert outcome.code == 3
        assert "gpt2 is not in the cache and the hub was not asked" in outcome.err
        assert "./gpt2 for what lies on this machine" in outcome.err


def test_a_command_names_all_that_it_takes(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(filled)
    said = attn("inspect-model", "net.safetensors").err
    assert said == (
        "attn: net.safetensors is a network file: attn inspect-model takes a model (org/name, ./dir "
        "or random:ARCH); attn rank-collapse and attn paths read it.\n"
    )
    said = attn("attribute", "net.safetensors", "--token", "1").err
    assert "net.safetensors is a network file: " in said
    assert "attn rank-collapse and attn paths read it" in said
    said = attn("rank-collapse", "net.safetensors", "--offline").err
    assert said == "attn: --offline goes with a model: net.safetensors is a network file.\n"


@pytest.mark.parametrize("name", ["net.safetensors", "report.json", "weights.bin"])
def test_a_pattern_is_read_as_what_it_is(
    name: str, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(filled)
    outcome = attn("approximate", "--pattern", name)
    if name == "net.safetensors":
        assert outcome.code == 3
        assert (
            "net.safetensors is a network file: attn approximate --pattern FILE takes"
            in outcome.err
        )
    else:
        assert (outcome.code, "unknown pattern" in outcome.err) == (2, True)


@pytest.mark.parametrize("command", ["rank-collapse", "paths", "inspect-maps"])
def test_what_is_read_is_not_written_over(
    command: str, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(filled)
    read = "maps.safetensors" if command == "inspect-maps" else "./net"
    before = Path(read).read_bytes()
    outcome = attn(command, read, "-o", f"../{filled.name}/{read}", "--format", "json")
    assert outcome.code == 2
    assert Path(read).read_bytes() == before


def test_what_names_nothing_is_not_taken_for_an_option(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compare` and `sweep` run other commands: a name that begins with - would change what those measure."""
    monkeypatch.chdir(filled)
    compared = attn("compare", "--by", "rank-collapse", "--", "--no-skip", "net.safetensors")
    swept = attn("sweep", "rank-collapse", "--model=--no-skip")
    for outcome in (compared, swept):
        assert (outcome.code, outcome.out) == (2, "")
        assert "'--no-skip' names no model" in outcome.err
