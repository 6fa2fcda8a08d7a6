"""Each example is run as a user would run it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from attncli.render import FORMATS
from attncli.reports import read

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An `attn` on the PATH that is this package."""
    program = tmp_path / "bin" / "attn"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m attncli "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}


def test_every_example_is_run_here() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == {
        "attn.toml",
        "gate.sh",
        "github-workflow.yml",
        "pre-commit",
        "regression.sh",
    }


def test_the_gate_script(tmp_path: Path, environment: dict[str, str]) -> None:
    report = tmp_path / "report.json"
    done = subprocess.run([EXAMPLES / "gate.sh", report], env=environment, check=False)
    assert done.returncode == 0
    verdicts = json.loads(report.read_text())["verdicts"]
    assert [verdict["failed"] for verdict in verdicts] == [False]


def steps() -> dict[str, str]:
    """The commands of the workflow by the names of their steps."""
    workflow = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    (job,) = workflow["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "name" in step}


def test_the_workflow_twice(tmp_path: Path, environment: dict[str, str]) -> None:
    """The first time without an accepted report, the second time against the first."""
    summary = tmp_path / "summary.md"
    said = {}
    for turn in (1, 2):
        for name, command in steps().items():
            done = subprocess.run(
                ["bash", "-e", "-c", command],
                env={**environment, "GITHUB_STEP_SUMMARY": str(summary)},
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (name, done.stderr)
            said[turn, name] = done.stdout + done.stderr
    regression = next(name for name in steps() if name.startswith("regression"))
    assert "there is no baseline accepted.json" in said[1, regression]
    assert "::debug::log10_residual:-2s: 0 of" in said[2, regression]
    assert summary.read_text().count("✅") == 3
    assert ElementTree.parse(tmp_path / "attn.xml").getroot().get("tests") == "1"


def test_the_workflow_stops_at_a_failed_gate(tmp_path: Path, environment: dict[str, str]) -> None:
    command = steps()["gate"].replace("< -3", "< 0")
    shutil.copy(SAVED, tmp_path / "report.json")
    shell = ["bash", "-e", "-c", command.replace("transformer", "SAN")]
    done = subprocess.run(shell, env=environment, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1
    assert b"::error " in done.stdout


SAVED = Path(__file__).parent / "reports" / "schema_version_1.json"


def test_the_regression_script_acts_on_every_exit_code(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    new, accepted = tmp_path / "new.json", tmp_path / "accepted.json"
    shutil.copy(SAVED, new)

    def run() -> tuple[int, str]:
        command = [EXAMPLES / "regression.sh", new, accepted]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines()[0]

    assert run() == (0, f"first run: {new} is the baseline now")
    assert run() == (0, "no regression")
    new.write_text(worse(SAVED))
    assert run() == (1, "regression:")
    new.write_text("{")
    assert run() == (3, "could not be checked")


def worse(path: Path) -> str:
    """The report, every residual a hundred decades smaller."""
    document = json.loads(FORMATS["json"](read(str(path))))
    for row in document["rows"]:
        if row["metric"] == "log10_residual":
            row["value"] -= 100
    return json.dumps(document)


def test_the_hook_lets_good_commits_through_and_no_others(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    def git(*arguments: str) -> int:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        command = ["git", *who, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, check=False
        ).returncode

    assert git("init", "-q") == 0
    shutil.copy(EXAMPLES / "pre-commit", tmp_path / ".git" / "hooks" / "pre-commit")
    config = tmp_path / "attn.toml"
    shutil.copy(EXAMPLES / "attn.toml", config)
    assert git("add", "attn.toml") == 0
    assert git("commit", "-m", "good") == 0
    config.write_text(config.read_text().replace("< -3", "< 3"))
    assert git("commit", "-am", "bad") == 1
