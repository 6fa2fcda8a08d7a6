"""The files around the package: versions that agree, workflows that parse, and everything that the package needs in it."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from documents import PACKAGE, README
from uv_pins import pins

ROOT = README.parent
SETUP = (ROOT / "setup.py").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def requirement(text: str) -> str:
    """The name of `torch>=2.6`."""
    return re.split(r"[<>=\[; ]", text)[0]


def test_constraints_are_names_and_versions() -> None:
    assert [line for line in pins() if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_uv_has_the_versions_of_constraints() -> None:
    assert PROJECT["tool"]["uv"]["constraint-dependencies"] == pins(), "run python tests/uv_pins.py"


def test_whatever_is_asked_for_is_pinned() -> None:
    groups = [PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"].values()]  # fmt: skip
    asked = [text for group in groups for text in group]
    names = {requirement(text) for text in asked} - {"attncli"}
    assert names <= {requirement(text) for text in pins()}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_trained_models_of_the_tests_are_those_of_uv(name: str) -> None:
    """The same packages at the same versions, and without libraries of their own."""
    installed = re.search(r"pip install --no-deps ((?:[\w.=-]+ ?)+)", (ROOT / name).read_text())
    assert installed is not None
    group = [text for text in PROJECT["dependency-groups"]["dev"] if text != "attncli[test]"]
    assert installed[1].split() == group
    plain = [f"{one['name']}=={one['version']}" for one in PROJECT["tool"]["uv"]["dependency-metadata"] if one["requires-dist"] == []]  # fmt: skip
    assert plain == group


def test_the_package_brings_every_file_that_it_reads() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["attncli"]
    brought = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    brought |= {ROOT / source for source in re.findall(r"attncli/[\w/]+\.c", SETUP)}
    others = {
        path
        for path in PACKAGE.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc", ".pyi", ".so", ".pyd")
    }
    assert others == brought | {PACKAGE / "py.typed"}


@pytest.mark.slow
def test_without_a_compiler_a_wheel_is_built_without_the_library(tmp_path: Path) -> None:
    (empty := tmp_path / "bin").mkdir()
    build = ["egg_info", "--egg-base", tmp_path, "build", "--build-base", tmp_path / "build"]
    wheel = ["bdist_wheel", "--dist-dir", tmp_path, "--bdist-dir", tmp_path / "wheel"]
    names = ("CC", "ATTN_PURE_WHEEL", "LDSHARED")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    subprocess.run(
        [sys.executable, "setup.py", "-q", *build, *wheel],
        cwd=ROOT,
        env={**environment, "PATH": str(empty)},
        check=True,
        capture_output=True,
    )
    [found] = tmp_path.glob("*.whl")
    assert "-py3-none-" in found.name
    files = zipfile.ZipFile(found).namelist()
    assert "attncli/capture/one_pass/compiled_library.py" in files
    assert [name for name in files if name.endswith((".so", ".pyd"))] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_jobs_of_steps(path: Path) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text())
    assert workflow[True], "YAML reads `on` as true"
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])


PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
OURS = "OWNER/attn/.github/actions/attn@v1"


def test_actions_of_others_are_pinned_by_commit() -> None:
    """A tag can be moved; here, and in what others copy from here. One action is at one commit everywhere."""
    texts = [*ROOT.glob(".github/**/*.yml"), *ROOT.glob("examples/*.yml"), *ROOT.glob("attncli/guides/*.md"), README]  # fmt: skip
    found = {
        used.strip()
        for path in texts
        for used in re.findall(r"^\s*(?:- )?uses: (.+)$", path.read_text(), re.MULTILINE)
    }
    assert OURS in found
    loose = [one for one in found - {OURS} if not PINNED.fullmatch(one)]
    assert not loose
    assert len({one.partition("@")[0] for one in found}) == len(found) > 4


def test_hooks_of_pre_commit_are_what_ci_runs() -> None:
    (ours,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    ci = (ROOT / ".ci" / "run").read_text()
    for hook in ours["hooks"]:
        assert f".venv/bin/{hook['entry']}" in ci
        assert hook["language"] == "system", "with the versions of the virtual environment"


def test_the_citation_is_one() -> None:
    """The fields that the Citation File Format 1.2 asks for; the version is the package's."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert str(cited["version"]) == PROJECT["project"]["version"]
    assert cited["license"] == PROJECT["project"]["license"]
    for reference in cited["references"]:
        assert reference["type"] in ("article", "conference-paper")
        assert {"title", "authors", "year"} <= set(reference)
        assert all(
            {"family-names", "given-names"} <= set(author) for author in reference["authors"]
        )


def test_the_changelog_begins_with_what_is_not_released() -> None:
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert titles[0] == "Unreleased" or titles[0].startswith(PROJECT["project"]["version"])


def test_files_that_contributing_names_are_there() -> None:
    """Its walk of a command and its table of changes."""
    named = re.findall(r"`((?:attncli|tests)/[\w/.]+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert len(set(named)) > 20
    missing = [name for name in named if not (ROOT / name).exists()]
    assert missing == ["attncli/guides/TOPIC.md"], "a topic that is anyone's"


def test_the_changelog_has_a_short_entry_for_each_change() -> None:
    """Of the version that the package has: at most two lines, then the next one."""
    newest = (ROOT / "CHANGELOG.md").read_text().partition("\n## ")[2].partition("\n## ")[0]
    entries = re.split(r"^- ", newest, flags=re.MULTILINE)[1:]
    assert len(entries) > 40
    texts = [re.split(r"^(?: *\||#|$)", entry, flags=re.MULTILINE)[0] for entry in entries]
    assert [text for text in texts if text.count("\n") > 2] == []
