"""What other repositories take from this one: the composite action, the pre-commit hooks, the examples of sweeps."""

import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import attn

ROOT = Path(__file__).parent.parent
ACTION = ROOT / ".github" / "actions" / "attn" / "action.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
SIZES = ("--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An `attn` on the PATH that is this package, and a folder with a network."""
    monkeypatch.chdir(tmp_path)
    for name, call in (("attn", "-P -m attncli"), ("python", "")):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call} "$@"\n')
        program.chmod(0o755)
    for step in (1, 2):
        scale = ("--init-scale", f"1.{step}", "-q", "-o", f"net-{step}.safetensors")
        assert attn("generate", "network", *SIZES, *scale).code == 0
    path = os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]])
    python = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PATH": path, "PYTHONPATH": python, "GITHUB_OUTPUT": "outputs"}


def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(ACTION.read_text())
    return found


def test_the_action_says_what_it_takes() -> None:
    about = action()
    assert about["runs"]["using"] == "composite"
    used = ACTION.read_text()
    assert all(f"inputs.{name}" in used for name in about["inputs"])
    assert all(step.get("shell") == "bash" for step in about["runs"]["steps"] if "run" in step)
    assert "${{" not in "".join(step.get("run", "") for step in about["runs"]["steps"]), "no input becomes code"  # fmt: skip


def step_named(name: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A step as GitHub runs it."""
    step = next(step for step in action()["runs"]["steps"] if step.get("name") == name)
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    return subprocess.run(shell, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("cpu", ["true", "false"])
def test_the_action_installs_what_was_tried(environment: dict[str, str], cpu: str) -> None:
    """Each index for what is its own: a package that PyPI lacks is not looked for where anybody could put it."""
    Path("bin/python").write_text('#!/bin/sh\necho "$@" >> installed\n')
    inputs = {"GITHUB_ACTION_PATH": str(ACTION.parent), "EXTRAS": "plot,big", "CPU": cpu}
    assert step_named("install", {**environment, **inputs}).returncode == 0
    lines = [line.split() for line in Path("installed").read_text().splitlines()]
    assert len(lines) == 1 + (cpu == "true")
    for words in lines:
        assert words[:4] == ["-I", "-m", "pip", "install"], "nothing of the checkout is imported"
        constraints = Path(words[words.index("--constraint") + 1]).resolve()
        assert constraints == ROOT / "constraints.txt"
        assert "--extra-index-url" not in words
    assert lines[-1][-1].endswith("[plot,big]")
    assert "--index-url" not in lines[-1]
    assert lines[0][-1] == "torch" or cpu == "false"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("rank-collapse net-1.safetensors --variants SAN -q -o 'a report.json'", 0),
        ("rank-collapse net-1.safetensors --variants SAN --fail-if 'log10_residual[layer=-1] < 9'", 1),
        ("rank-collapse net-1.safetensors --laers 3", 2),
        ("rank-collapse $(touch hacked)", 2),
        ("check none.json", 3),
        ("rank-collapse net-1.safetensors --text 'an open quote", 2),
        ("check none.json \\", 2),
        ("", 2),
        (" \n ", 2),
        ("# ci", 2),
    ],
)  # fmt: skip
def test_the_action_ends_as_attn_ends(environment: dict[str, str], line: str, code: int) -> None:
    for name in ("shlex.py", "os.py", "numpy.py"):  # of the checkout, where the action runs
        Path(name).write_text("open('hacked', 'w').close()\n")
    done = step_named("attn", {**environment, "LINE": line})
    assert done.returncode == code, done.stderr
    assert done.stderr.count("attn: ") == int(code > 1)
    assert Path("outputs").read_text() == f"exit-code={code}\n"
    assert not Path("hacked").exists()
    assert Path("a report.json").exists() == (code == 0)


@pytest.mark.slow
def test_the_hooks_run_commands_that_there_are(environment: dict[str, str]) -> None:
    """As pre-commit runs them: the entry, then the args of whoever uses it."""
    hooks = {hook["id"]: hook for hook in yaml.safe_load(HOOKS.read_text())}
    assert set(hooks) == {"attn-ci", "attn-check"}
    assert attn("rank-collapse", *SIZES, "--variants", "SAN", "-q", "-o", "r.json").code == 0
    Path("attn.toml").write_text(
        '[checks.saved]\nreport = "r.json"\nfail-if = ["log10_residual > 9"]\n'
    )
    for name, args, code in (
        ("attn-ci", ["--config", "attn.toml"], 0),
        ("attn-check", ["r.json", "--fail-if", "log10_residual < 9"], 1),
    ):
        entry = shlex.split(hooks[name]["entry"])
        done = subprocess.run([*entry, *args], env=environment, capture_output=True, check=False)
        assert done.returncode == code, done.stderr


@pytest.mark.slow
def test_the_examples_of_sweeps_make_one_table(environment: dict[str, str]) -> None:
    by_items = subprocess.run(
        [ROOT / "examples" / "sweep-items.sh", "items", "net-*"], env=environment, capture_output=True, text=True, check=True
    )  # fmt: skip
    by_engine = subprocess.run(
        [sys.executable, ROOT / "examples" / "sweep-engines.py", "local:2", "net-*"], env=environment, capture_output=True, text=True, check=True
    )  # fmt: skip
    assert "(2 of 2 items)" in " ".join(by_items.stdout.split())
    assert by_items.stdout.split() == by_engine.stdout.split()


HOSTILE = (
    "$(touch PWNED)",
    "`touch PWNED`",
    "'; touch PWNED; '",
    "\ntouch PWNED\n",
    "a\n'; touch PWNED; '",
    "\u2028\udcff \\",
)
"""What a folder may be called; the last is one byte that no text has, among others."""


@pytest.fixture
def hostile(environment: dict[str, str]) -> list[str]:
    names = [f"{text}-{number}.safetensors" for number, text in enumerate(HOSTILE)]
    for name in names:
        os.link("net-1.safetensors", f"net-{name}")
    for number in (1, 2):
        os.unlink(f"net-{number}.safetensors")
    return names


@pytest.mark.slow
def test_a_name_is_no_command(environment: dict[str, str], hostile: list[str]) -> None:
    """By xargs, two at a time, as the example has it: every item is measured, and nothing else is run."""
    script = ROOT / "examples" / "sweep-items.sh"
    done = subprocess.run([script, "items", "net-*"], env=environment, capture_output=True, text=True, check=True)  # fmt: skip
    assert f"({len(hostile)} of {len(hostile)} items)" in " ".join(done.stdout.split())
    assert "PWNED" not in os.listdir()


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "ksh", "zsh", "busybox"])
def test_every_shell_reads_one_word_for_each(environment: dict[str, str], hostile: list[str], shell: str) -> None:  # fmt: skip
    """A line for each item; a shell that does not know $'…' reads another name, and runs nothing."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}")
    called = ["busybox", "sh"] if shell == "busybox" else [shell]
    listed = attn("sweep", "rank-collapse", "--glob", "net-*", "--list-items").out.splitlines()
    assert len(listed) == len(hostile)
    Path("bin/attn").write_text(f"""#!/bin/sh\nexec "{sys.executable}" -c 'import sys; print(ascii(sys.argv[1:]))' "$@"\n""")  # fmt: skip
    for line in listed:
        done = subprocess.run([*called, "-c", line], env=environment, capture_output=True, text=True, check=True)  # fmt: skip
        words = ast.literal_eval(done.stdout)
        assert (words[0], len(words)) == ("rank-collapse", 6)
        if shell == "bash":
            assert Path(words[1]).exists()
    assert "PWNED" not in os.listdir()


def test_jsonl_is_a_line_for_each_item(environment: dict[str, str], hostile: list[str]) -> None:
    """Whatever its reader takes for the end of a line; the words need no shell."""
    words = ("sweep", "rank-collapse", "--glob", "net-*", "--list-items", "--format", "jsonl")
    lines = attn(*words).out.splitlines()
    assert len(lines) == len(hostile)
    for item in map(json.loads, lines):
        assert item["command"][2] == item["item"]
        assert Path(item["item"]).exists()
