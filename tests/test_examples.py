"""Each example is run as a user would run it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    assert {path.name for path in EXAMPLES.iterdir()} == {"gate.sh", "github-workflow.yml"}


def test_the_gate_script(tmp_path: Path, environment: dict[str, str]) -> None:
    report = tmp_path / "report.json"
    done = subprocess.run([EXAMPLES / "gate.sh", report], env=environment, check=False)
    assert done.returncode == 0
    verdicts = json.loads(report.read_text())["verdicts"]
    assert [verdict["failed"] for verdict in verdicts] == [False]


def test_the_commands_of_the_workflow(tmp_path: Path, environment: dict[str, str]) -> None:
    text = (EXAMPLES / "github-workflow.yml").read_text()
    commands = [" ".join(found.split()) for found in re.findall(r"run: (?:>\s+)?(attn .*(?:\n {10}\S.*)*)", text)]  # fmt: skip
    assert len(commands) == 2
    summary = tmp_path / "summary.md"
    for command in commands:
        done = subprocess.run(
            ["sh", "-euc", command],
            env={**environment, "GITHUB_STEP_SUMMARY": str(summary)},
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, command
    assert (tmp_path / "report.json").exists()
    assert "✅" in summary.read_text()
