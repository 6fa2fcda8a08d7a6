"""Broken configuration files and command lines."""

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz.forks import Case
from fuzz.material import Material
from fuzz.mutations import spoilt_text

SMALL = ("--layers", "1", "--tokens", "3", "--width", "4", "--heads", "2", "--seeds", "1")
TOML = (
    '[rank-collapse]\nlayers = 1\ntokens = 3\nwidth = 4\nheads = 2\nseeds = 1\nmetric = ["stable_rank"]\n',
    "[tool.attn.rank-collapse]\nlayers = 1\ntokens = 3\nwidth = 4\nheads = 2\nseeds = 1\n",
    '[checks.one]\ncommand = "rank-collapse --layers 1"\nfail-if = ["order > 1"]\n',
    '[checks."a b"]\nreport = "x.json"\nbaseline = "y.json"\nfail-on = ["order:1"]\n[check]\nquiet = true\n',
)
PIECES = ("a . . . . . . . . . . . . . . . . . . . . . . b", "tool = [1]", "a = " + "[" * 2000 + "]" * 2000, "a = " + "{b=" * 1500, "[[rank-collapse]]", "rank-collapse = 3", "[rank-collapse.x]", "seeds = 1e9", "seeds = " + "9" * 5000, "x = 1979-05-27T07:32:00Z", 'metric = "a\\u0000b"', "layers = [1]", "layers = {a = 1}", "quiet = 1", "a." * 2000 + "b = 1", '"" = 1', "checks = 1", "fail-if = [[]]", "output = 1", "plot = true", "\ufeff", "[a]\n" * 500, "x = inf", '"""')  # fmt: skip
INTEGERS = ("0", "1", "2", "3", "1", "2", "3", "1", "2", "3", "4", "-1", "", "x", "nan", "1e3", "9" * 30, "9" * 5000, "2147483648", "9223372036854775808", "٣", "1.5", "0x4", "1_0")  # fmt: skip
FLOATS = (*INTEGERS, "1e-310", "inf", "-0.0", "1e308")
ANY = ("", "x", ":", "=", ",", "a:b", "a=1", "tokens=1:4", "tokens=1:99999999999", "tokens=1:4:999999", "window:2", "window:" + "9" * 30, "sinkhorn:999999999", "block:size=", "random:k=9999999999", "random:bert?layers=9999999", "random:bert?vocab=999999999999", "random:bert?width=1e9", "random:bert?layers=1&layers=2", "random:xyz", "order > 1", "no/such", ".", "-", "--", "\x00", "\n", "::error::", "a" * 20_000, "[" * 300, "global:1+" * 500 + "window:1", "butterfly", "SAN,SAN", "all", "json", "cpu", "float16", "1,2,x", "@file", "~", "../..", "é", "\ud800")  # fmt: skip
LONG = ("--save-training", "--train-steps", "--recurrence", "--effort")
"""Options of trainings, which are long by nature."""


def toml(rng: Random, material: Material, folder: Path) -> Case:
    text = rng.choice(TOML)
    if rng.random() < 0.6:
        lines = text.splitlines()
        lines.insert(rng.randrange(len(lines) + 1), rng.choice(PIECES))
        text = "\n".join(lines)
    if rng.random() < 0.6:
        text = spoilt_text(rng, text)
    named = rng.random() < 0.6
    path = folder / ("attn.toml" if named else "pyproject.toml")
    path.write_text(text if named else f"# [tool.attn]\n{text}", errors="surrogatepass")
    command = rng.choice(
        (["rank-collapse", *SMALL], ["config"], ["list", "metrics"], ["check", "-"])
    )
    return Case(["--config", path.name, *command] if named else command)


@cache
def commands() -> dict[tuple[str, ...], list[Any]]:
    """Every command with its options, as typer knows them."""

    from attncli.cli.app import build_app
    from attncli.cli.command_tree import iterate_commands

    return {path: list(command.params) for path, command in iterate_commands(build_app(), ())}


BASES = {
    ("rank-collapse",): [*SMALL],
    ("paths",): [*SMALL],
    ("approximate",): ["--length", "6", "--width", "3"],
    ("generate", "maps"): ["--tokens", "3", "--map", "uniform", "-o", "made"],
    ("generate", "network"): [*SMALL[:8], "-o", "made"],
    ("inspect-model",): ["random:bert?tiny", "--random-tokens", "4"],
    ("inspect-weights",): ["random:bert?tiny"],
    ("inspect-maps",): ["maps.safetensors"],
    ("dispersion",): ["random:bert?tiny", "--random-tokens", "4", "--lengths", "2:4"],
    ("attribute",): ["random:bert?tiny", "--random-tokens", "4", "--token", "0"],
    ("count-paths",): ["--layers", "3"],
    ("sensitivity",): ["random:bert?tiny", "--random-tokens", "4", "--directions", "2"],
    ("head-capacity",): ["random:bert?tiny", "--length", "5"],
    ("verify-fit",): ["fit.safetensors"],
    ("reproduce", "circle"): ["--width", "4", "--train-steps", "2"],
    ("reproduce", "memorise"): ["--width", "4", "--train-steps", "2"],
    ("reproduce", "sort"): ["--width", "4", "--train-steps", "2"],
    ("reproduce", "convex-hull"): ["--width", "4", "--train-steps", "2"],
    ("reproduce", "rank-heads"): ["--length", "4", "--train-steps", "2"],
}
"""What keeps a run small, or what it cannot do without."""


def arguments(rng: Random, material: Material, folder: Path) -> Case:
    """A command that would run, with options that may make no sense, and words where they do not belong."""
    path = rng.choice([*BASES, *BASES, *commands()])
    words = [*path, *BASES.get(path, [])]
    options = [each for each in commands()[path] if each.param_type_name == "option"]
    for _ in range(rng.randint(1, 3)):
        if not options or rng.random() < 0.15:
            words.insert(rng.randrange(len(words) + 1), rng.choice((*ANY, *INTEGERS)))
            continue
        option = rng.choice(options)
        name = rng.choice(option.opts)
        if name in LONG:
            continue
        values = {int: INTEGERS, float: FLOATS}.get(option.bare_type(), (*ANY, *INTEGERS))
        words += [name] if getattr(option, "is_flag", False) else [name, rng.choice(values)]
    return Case(words, environment={"HF_HUB_OFFLINE": "1"})
