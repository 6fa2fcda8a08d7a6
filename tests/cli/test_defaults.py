"""Defaults of the environment and the configuration file: those that do not apply to a run are left out of it."""

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import ONE, attn
from small_checkpoints import saved

from attncli.cli.app import build_app
from attncli.cli.command_tree import iterate_commands
from attncli.declare.command_table import COMMANDS, GATE, NETWORKS_AND_MODELS
from attncli.declare.option_combination_rules import (
    RunSource,
    SetOption,
    refuse_or_drop_inapplicable_options,
)
from attncli.declare.option_declarations import Rules, collect_option_rules
from attncli.errors import UsageError
from attncli.model_and_file_sources import Source

TINY = "random:bert?layers=2&width=16&heads=2"
PATH = ",".join(12 * "1")
SIZES = ("--layers", "12", "--tokens", "5", "--width", "8", "--heads", "2")

RUNS: Mapping[str, tuple[str, ...]] = {
    "rank-collapse": (
        "",
        "--sweep tokens=4:8",
        "--no-skip",
        "net.safetensors",
        TINY,
        f"{TINY} --random-tokens 8",
        f"{TINY} --exact",
    ),
    "paths": (
        "",
        f"--layers 12 --path {PATH}",
        "--by head",
        "--sample 3",
        "net.safetensors",
        TINY,
        f"{TINY} --by steps",
        f"{TINY} --sample 3",
    ),
    "inspect-model": (
        TINY,
        f"{TINY} --text-file essays.txt",
        f"{TINY} --metric states",
    ),
    "approximate": (
        "",
        "--sweep length=8:16",
        "--frontier 2:4",
        "--width 3",
        "-o fit.safetensors",
    ),
    "inspect-weights": ("./bert",),
    "inspect-maps": ("maps.safetensors",),
    "dispersion": (f"{TINY} --lengths 4:8",),
    "attribute": (f"{TINY} --token 0", f"{TINY} --token 0 --text-file essays.txt"),
    "count-paths": ("", "./bert", "random:bert", "net.safetensors"),
    "sensitivity": (TINY, f"{TINY} --text-file essays.txt"),
    "head-capacity": ("./bert", "./bert --head 0.0", "./bert --head 0.0 -o fit.safetensors"),
    "verify-fit": ("fit.safetensors",),
    "reproduce circle": ("", "--width 8", "--sweep width=8:16"),
    "reproduce memorise": ("--sequences 2 --length 2",),
    "reproduce sort": ("",),
    "reproduce convex-hull": ("",),
    "reproduce rank-heads": ("",),
}
"""Runs of every kind that a command has."""

SAMPLES: Mapping[str, Any] = {
    "relevance": "top",
    "metric": "stable_rank",
    "sweep": "tokens=4:8",
    "variants": "SAN",
    "revision": "main",
    "dtype": "float64",
    "arithmetic": "float64",
    "device": "cpu",
    "device_map": "auto",
    "text": "One.",
    "text_file": "essays.txt",
    "token_ids": "1,2,3",
    "width": 16,
    "heads": 2,
    "key_width": 4,
    "norm": "layer",
    "norm_position": "post",
    "mask": "causal",
    "positions": "relative",
    "attention": "sinkhorn",
    "activation": "gelu",
    "format": "json",
    "path": PATH,
    "by": "head",
    "steps": "mlp",
    "stack": "encoder",
    "evaluate": "frozen",
    "tokens_from": "essays.txt",
    "ranks": "1",
    "heads_times_rank": "8",
    "paths_per_sum": "5",
    "token": "0",
    "lengths": "4:8",
    "sort": "sink",
    "head": "0.0",
    "frontier": "2:4",
    "pattern": "previous",
    "method": "learned",
    "figure_size": "4x3",
    "inputs": "free",
    "labels": "words.txt",
}
"""A value that makes sense for each option that is no flag and no number."""

OWN_SAMPLES: Mapping[tuple[str, str], Any] = {
    ("inspect-model", "metric"): "sink",
    ("inspect-model", "layers"): "0",
    ("inspect-model", "heads"): "0",
    ("approximate", "sweep"): "length=8:16",
    ("inspect-maps", "metric"): "sink",
    ("inspect-maps", "layers"): "0",
    ("inspect-maps", "heads"): "0",
    ("inspect-weights", "metric"): "qk_trace",
    ("inspect-weights", "layers"): "0",
    ("inspect-weights", "heads"): "0",
    ("dispersion", "metric"): "sink",
    ("dispersion", "layers"): "0",
    ("dispersion", "heads"): "0",
    ("reproduce circle", "sweep"): "width=8:16",
    ("reproduce convex-hull", "width"): 24,
}

OF_FILES = ("compare", "ci", "list", "guide", "config show")
"""Commands whose options have no rules."""

GATES = ("fail_if",)
"""What must never be left out."""


def commands_by_name() -> dict[str, Any]:
    return {" ".join(path): command for path, command in iterate_commands(build_app(), ())}


def sample(command: str, option: Any) -> Any:
    """A value for the option."""
    found = OWN_SAMPLES.get((command, option.name), SAMPLES.get(option.name))
    if found is not None:
        return found
    if option.is_flag:
        return not option.default
    assert option.type_descriptor.annotation in (int, float), f"SAMPLES lacks {option.name}"
    return 2


def defaults_of(command: str) -> list[tuple[str, Any]]:
    """Every option of a command as the file spells it, with a value."""
    found = commands_by_name()[command]
    rules = found.callback.rules
    names = [
        one
        for one in found.params
        if one.name in found.callback.options
        and one.name not in GATES
        and all("file" in rule.set_by for rule in rules[one.name])
    ]
    return [(one.opts[0].removeprefix("--"), sample(command, one)) for one in names]


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the runs read."""
    folder = tmp_path_factory.mktemp("material")
    saved("BertModel", folder / "bert")
    saved("ViTModel", folder / "vit")
    (folder / "essays.txt").write_text("One.\n\nAnother.\n")
    assert attn("generate", "network", *SIZES, "-o", str(folder / "net.safetensors")).code == 0
    fit = ("--pattern", "previous", "--length", "6", "-q", "-o", str(folder / "fit.safetensors"))
    assert attn("approximate", *fit).code == 0
    maps = ("--map", "sink", "--tokens", "6", "--heads", "2")
    assert attn("generate", "maps", *maps, "-o", str(folder / "maps.safetensors")).code == 0
    return folder


@pytest.fixture(autouse=True)
def here(material: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(material)


def any_value(command: str, option: Any) -> Any:
    """A value of the option, or a text: no rule of a command asks whether a file exists."""
    unnamed = option.is_flag or option.type_descriptor.annotation in (int, float)
    known = unnamed or (command, option.name) in OWN_SAMPLES or option.name in SAMPLES
    return sample(command, option) if known else "named"


def acceptances(command: str, option: Any, options: Mapping[str, Any], rules: Rules) -> Iterator[str]:  # fmt: skip
    """What each kind of SOURCE, or of model whose heads are patterns, says of the option; "" is yes."""
    needed = [rule.needs for rule in rules[option.name] if rule.needs]
    names = [reference.partition(":")[0] for references in needed for reference in references]
    needed += [rule.needs for name in names for rule in rules.get(name, ()) if rule.needs]
    for kind, chosen in itertools.product(COMMANDS[command].takes or NETWORKS_AND_MODELS, itertools.product(*needed)):  # fmt: skip
        values = {name: any_value(command, one) for name, one in options.items() if one.required}
        named = (reference.partition(":") for reference in chosen)
        values |= {name: value or any_value(command, options[name]) for name, _, value in named if name in options}  # fmt: skip
        values[option.name] = any_value(command, option)
        try:
            refuse_or_drop_inapplicable_options(
                rules,
                [SetOption(*each) for each in values.items()],
                RunSource(Source(kind, "SOURCE"), kind),
            )
            yield ""
        except UsageError as refused:
            yield str(refused)


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in OF_FILES])
def test_every_option_that_is_offered_is_accepted(command: str) -> None:
    """By one kind of SOURCE at least; else it is no option of this command."""
    found = commands_by_name()[command]
    rules = collect_option_rules(found.callback.declared.values())
    options = {one.name: one for one in found.params if one.param_type_name == "option"}
    for name in {*options} & {*rules}:
        said = [*acceptances(command, options[name], options, rules)]
        assert "" in said, (name, said)


SHORT: Mapping[str, str] = {
    "approximate": "--pattern previous --length 6",
    "paths": "--layers 2",
    "head-capacity": "./bert --random-tokens 6",
    "reproduce circle": "--width 8 --seeds 1 --train-steps 1 --recurrence 3",
    "reproduce memorise": "--sequences 2 --length 2 --seeds 1 --train-steps 1",
    "reproduce sort": "--layers 1 --width 8 --heads 1 --seeds 1 --train-steps 1",
    "reproduce convex-hull": "--layers 1 --width 8 --heads 1 --seeds 1 --train-steps 1",
    "reproduce rank-heads": "--seeds 1 --train-steps 1",
    "check": "report.json",
    "compare": "report.json report.json",
    "sweep": "rank-collapse --model net.safetensors --model ./net.safetensors",
    "ci": "--config ci.toml",
}
"""A run of each command that takes little time, where the first of RUNS does not."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [name for name, entry in COMMANDS.items() if entry.gate != GATE]
)
def test_the_condition_in_the_help_can_be_typed(command: str, material: Path) -> None:
    """It names what the command measures without further options."""
    assert attn("rank-collapse", "net.safetensors", "-q", "-o", "report.json").code == 0
    (material / "ci.toml").write_text('[checks.one]\nreport = "report.json"\n')
    run = SHORT.get(command) or RUNS[command][0]
    outcome = attn(*command.split(), *run.split(), "--fail-if", COMMANDS[command].gate)
    assert outcome.code in (0, 1), outcome.err
    assert COMMANDS[command].gate in outcome.out + outcome.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "run"), [(command, run) for command, runs in RUNS.items() for run in runs]
)
def test_a_run_that_works_works_with_any_default(command: str, run: str, tmp_path: Path) -> None:
    """For every option of every command: its value applies, or is left out; it never stops the run."""
    line = ("config", "show", *command.split(), *run.split())
    assert attn(*line).code == 0
    config = tmp_path / "attn.toml"
    fates = set()
    for name, value in defaults_of(command):
        config.write_text(f"[{command.replace(' ', '.')}]\n{name} = {json.dumps(value)}\n")
        outcome = attn(*line, "--config", str(config))
        assert outcome.code == 0, (name, outcome.err)
        (said,) = outcome.out.splitlines()
        fates.add(said.partition("): ")[2].partition(":")[0])
    assert fates >= {"applies"}


@pytest.mark.slow
def test_the_configuration_of_the_readme(material: Path, tmp_path: Path) -> None:
    """A model has no seeds; what is left out changes nothing of the report."""
    line = ("rank-collapse", TINY, "--random-tokens", "8", "--variants", "SAN")
    config = tmp_path / "attn.toml"
    config.write_text("[rank-collapse]\nseeds = 3\nmask = 'causal'\n")
    plain, with_defaults = attn(*line), attn(*line, "--config", str(config))
    assert (with_defaults.code, with_defaults.out) == (0, plain.out)
    shown = attn("config", "show", "--config", str(config), *line).out
    assert shown.splitlines()[0] == (
        f"rank-collapse --seeds = 3  ({config}, line 2): left out: "
        f"--seeds goes with synthetic networks: {TINY} is a model."
    )


def test_what_is_typed_is_refused_as_ever(tmp_path: Path) -> None:
    config = tmp_path / "attn.toml"
    config.write_text("[rank-collapse]\nseeds = 3\n")
    outcome = attn("rank-collapse", TINY, "--seeds", "2", "--config", str(config))
    assert (outcome.code, outcome.out) == (2, "")
    assert "--seeds goes with synthetic networks" in outcome.err


@pytest.mark.slow
def test_what_is_typed_goes_before_a_default_that_excludes_it(tmp_path: Path) -> None:
    config = tmp_path / "attn.toml"
    config.write_text('[inspect-model]\ntext-file = "essays.txt"\ntoken-ids = "1,2,3"\n')
    line = ("inspect-model", TINY, "--random-tokens", "6", "--format", "json")
    outcome = attn(*line, "--config", str(config))
    assert outcome.code == 0, outcome.err
    assert outcome.out == attn(*line).out.replace(str(config), "") or json.loads(outcome.out)
    assert "random tokens" in json.dumps(json.loads(outcome.out)["input"])


def test_an_image_model_takes_no_default_text(tmp_path: Path) -> None:
    config = tmp_path / "attn.toml"
    config.write_text('[inspect-model]\ntext-file = "essays.txt"\nmetric = "sink"\n')
    line = ("inspect-model", "./vit", "--config", str(config))
    assert attn(*line).code == 0
    outcome = attn("inspect-model", "./vit", "--text-file", "essays.txt")
    assert (outcome.code, "leave the text options out" in outcome.err) == (2, True)


def test_defaults_that_exclude_each_other_are_an_error_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "attn.toml"
    config.write_text('[rank-collapse]\nskip = false\n\nvariants = "SAN"\n')
    outcome = attn("rank-collapse", "--config", str(config))
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{config}, line 4, {config}, line 2: give --variants or single switches" in outcome.err
    assert attn("rank-collapse", *ONE, "--mlp", "--no-skip", "--config", str(config)).code == 0


def test_a_gate_is_never_left_out(tmp_path: Path) -> None:
    config = tmp_path / "attn.toml"
    config.write_text("[rank-collapse]\nfail-if = 'log10_residual[no-such] < 0'\n")
    outcome = attn("rank-collapse", *ONE, "--config", str(config))
    assert (outcome.code, "matches nothing" in outcome.err) == (2, True)


def test_the_environment_likewise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "PLAIN", {**commands.PLAIN, "ATTN_RANK_COLLAPSE_SEEDS": "3"})
    line = ("config", "show", "rank-collapse")
    assert "(ATTN_RANK_COLLAPSE_SEEDS): left out: --seeds goes" in attn(*line, TINY).out
    assert "(ATTN_RANK_COLLAPSE_SEEDS): applies" in attn(*line).out
    assert ": the command line says otherwise" in attn(*line, "--seeds", "4").out


@pytest.mark.parametrize(
    ("setting", "line", "sentence"),
    [
        ("[rank-collapse]\ngates = true\n", "rank-collapse net.safetensors", "line 2: --gates goes with --attention gated"),
        ("[inspect-model]\n\nsort = 'sink'\n", f"inspect-model {TINY} --metric entropy", "line 3: --sort sink: it sorts by"),
    ],
)  # fmt: skip
def test_what_a_run_alone_can_refuse_names_the_line_of_the_file(
    tmp_path: Path, setting: str, line: str, sentence: str
) -> None:
    config = tmp_path / "attn.toml"
    config.write_text(setting)
    outcome = attn(*line.split(), "--config", str(config))
    assert (outcome.code, f"{config}, {sentence}" in outcome.err) == (2, True), outcome.err
