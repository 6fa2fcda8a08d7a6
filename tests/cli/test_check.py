"""`attn check`: a collapsed network fails, other seeds pass, and what is printed and the exit code are one decision."""

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from commands import PLAIN, attn
from hypothesis import given, settings
from hypothesis import strategies as st
from reports import reports

from attncli.records import Report
from attncli.render import FORMATS

VERSION_1 = Path(__file__).parent.parent / "reports" / "schema_version_1.json"
SIZES = ("--layers", "4", "--tokens", "8", "--width", "16", "--heads", "2")
COLLAPSE = "log10_residual[layer=-1] < -3"


def measured(path: Path, variant: str, seed: int = 0, seeds: int = 5) -> str:
    """A report of a network that collapses (SAN) or does not (transformer)."""
    options = ("--variants", variant, "--seed", str(seed), "--seeds", str(seeds))
    assert attn("rank-collapse", *SIZES, *options, "-q", "-o", str(path)).code == 0
    return str(path)


def test_a_collapsed_network_fails_and_a_healthy_one_passes(tmp_path: Path) -> None:
    collapsed = measured(tmp_path / "collapsed.json", "SAN")
    healthy = measured(tmp_path / "healthy.json", "transformer")
    for path, code, mark in ((collapsed, 1, "FAIL"), (healthy, 0, "pass")):
        outcome = attn("check", path, "--fail-if", COLLAPSE)
        assert outcome.code == code
        assert outcome.out.splitlines()[-1].startswith(f"{mark}  {COLLAPSE}")


@pytest.mark.slow
def test_noise_passes_and_a_worse_network_does_not(tmp_path: Path) -> None:
    """Other seeds of the same network are noise; twice the weights are not."""
    old = measured(tmp_path / "old.json", "SAN")
    same = measured(tmp_path / "same.json", "SAN", seed=100)
    worse = str(tmp_path / "worse.json")
    options = ("--variants", "SAN", "--init-scale", "0.25")
    assert attn("rank-collapse", *SIZES, *options, "-q", "-o", worse).code == 0
    for path, code in ((same, 0), (worse, 1)):
        against = ("--baseline", old, "--fail-on", "log10_residual:-p.05")
        assert attn("check", path, *against).code == code
    absolute = ("--baseline", old, "--fail-on", "log10_residual[layer=-1]:0.000001")
    assert attn("check", same, *absolute).code == 1


def test_missing_baseline_regression_and_broken_input_have_codes_of_their_own(tmp_path: Path) -> None:  # fmt: skip
    document = json.loads(VERSION_1.read_text())
    for row in document["rows"]:
        row["value"] = row["value"] and row["value"] - 1
    worse, broken = tmp_path / "worse.json", tmp_path / "broken.json"
    worse.write_text(json.dumps(document))
    broken.write_text("{")
    gate = ("--fail-on", "log10_residual:-0.5")
    codes = [
        attn("check", str(report), "--baseline", str(baseline), *gate).code
        for report, baseline in (
            (VERSION_1, VERSION_1),
            (worse, VERSION_1),
            (VERSION_1, tmp_path / "none.json"),
            (VERSION_1, broken),
            (broken, VERSION_1),
        )
    ]
    assert codes == [0, 1, 5, 3, 3]


@pytest.mark.parametrize("alone", [("--baseline", "x.json"), ("--fail-on", "order:1")])
def test_baseline_and_limit_go_together(alone: tuple[str, str]) -> None:
    outcome = attn("check", str(VERSION_1), *alone)
    assert (outcome.code, outcome.out) == (2, "")
    assert "give both" in outcome.err


WITH_THEIR_COMMAND = ("html",)
"""Formats that show the command line, packed with all else: `tests/render/html_page` holds them against the report."""


@pytest.mark.slow
@pytest.mark.parametrize("format", [f for f in FORMATS.names() if f not in WITH_THEIR_COMMAND])
def test_rendering_again_is_rendering(format: str, tmp_path: Path) -> None:
    """A report saved as JSON and shown by check is what the command itself prints."""
    options = ("rank-collapse", *SIZES, "--seeds", "2")
    direct = attn(*options, "--format", format).out
    saved = tmp_path / "saved.json"
    attn(*options, "-q", "-o", str(saved))
    again = attn("check", str(saved), "--format", format).out
    drop = r'"command": \[[^]]*\]'
    assert re.sub(drop, "", again) == re.sub(drop, "", direct)


@pytest.mark.slow
def test_stdin_is_a_report_too() -> None:
    program = [sys.executable, "-m", "attncli", "check", "-", "--format", "csv"]
    done = subprocess.run(program, input=VERSION_1.read_bytes(), capture_output=True, check=False)
    assert done.returncode == 1  # its own verdict stands
    assert done.stdout.startswith(b"metric,variant,layer")


@pytest.mark.slow
def test_a_report_is_read_under_any_name_and_other_files_are_named_by_their_kind(tmp_path: Path) -> None:  # fmt: skip
    report, matrix = tmp_path / "report.csv", tmp_path / "matrix.csv"
    report.write_text(VERSION_1.read_text())
    matrix.write_text("1,0\n0,1\n")
    shown, same = attn("check", str(report)), attn("check", str(VERSION_1))
    assert (shown.code, shown.out) == (same.code, same.out)
    refused = attn("check", str(matrix))
    assert refused.code == 3
    assert f"{matrix} is a file of matrices: attn check takes a saved report" in refused.err


def test_checking_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from attncli.cli.main import run_command_line\n"
        "for format in ('table', 'json', 'junit', 'github', 'markdown', 'csv'):\n"
        f"    run_command_line(['check', {str(VERSION_1)!r}, '--baseline', {str(VERSION_1)!r},\n"
        "         '--fail-on', 'stable_rank:2s', '--format', format])\n"
        "sys.exit(', '.join({'torch', 'transformers', 'numpy', 'scipy'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], env=PLAIN, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


MARKS = {"table": r"^FAIL  ", "markdown": "^- ❌", "github": "^::error ", "junit": "<failure "}
limits = st.sampled_from(["0", "-0.5", "+1", "10%", "1e300"])


@pytest.mark.slow
@settings(max_examples=60)
@given(
    report=reports,
    old=reports,
    metric=st.sampled_from(["log10_residual", "order", "entropy"]),
    op=st.sampled_from(["<", ">", "<=", "!="]),
    number=st.sampled_from(["0", "-1", "1e9"]),
    limit=limits,
    format=st.sampled_from(sorted(MARKS)),
)
def test_stdout_and_exit_code_are_one_decision(
    report: Report, old: Report, metric: str, op: str, number: str, limit: str, format: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    folder = tmp_path_factory.getbasetemp()
    paths = folder / "new.json", folder / "old.json"
    for path, written in zip(paths, (report, old), strict=True):
        path.write_text(FORMATS["json"](written))
    asked = ("--fail-if", f"{metric} {op} {number}", "--fail-on", f"{metric}:{limit}")
    outcome = attn("check", str(paths[0]), *asked, "--baseline", str(paths[1]), "--format", format)
    if outcome.code in (2, 5):  # the metric is in neither, or not in the old one
        assert outcome.out == ""
        assert outcome.err.startswith("attn: ")
        return
    failures = len(re.findall(MARKS[format], outcome.out, re.MULTILINE))
    assert outcome.code == int(failures > 0)
    if format == "junit":
        assert ElementTree.fromstring(outcome.out).get("failures") == str(failures)
