"""The guide on adding is followed to the letter in a copy of the package, and each thing that it adds works."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import PLAIN
from small_checkpoints import BERT

import attncli
from attncli.guides import read_guide_text

PACKAGE = Path(attncli.__file__).parent
BLOCK = re.compile(r"^```(?:python (file|append)=|(diff) )(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # fmt: skip
SMALL = ("--layers", "2", "--tokens", "6", "--width", "8", "--heads", "2", "--seeds", "1")


def follow(text: str, root: Path) -> int:
    """Do what the blocks say; a diff's first line is there once, and the others come after it."""
    blocks = BLOCK.findall(text)
    for way, diff, name, body in blocks:
        path = root / name
        if way == "file":
            assert not path.exists(), name
            path.parent.mkdir(exist_ok=True)
            path.write_text(body)
        elif way == "append":
            path.write_text(f"{path.read_text()}\n\n{body}")
        else:
            assert diff
            first, *added = body.splitlines()
            assert all(line.startswith("+") for line in added), name
            before = path.read_text()
            assert before.count(f"{first[1:]}\n") == 1, (name, first)
            whole = "".join(f"{line[1:]}\n" for line in (first, *added))
            path.write_text(before.replace(f"{first[1:]}\n", whole))
    return len(blocks)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, root / "attncli")  # with what is compiled of it
    assert follow(read_guide_text("adding"), root) == read_guide_text("adding").count("\n```") // 2
    return root


def python(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    beside = os.pathsep.join([str(copy), *(part for part in sys.path if part and not (Path(part) / "attncli").exists())])  # fmt: skip
    environment = {**PLAIN, "PYTHONPATH": beside, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=copy, env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip


WORKS: dict[str, tuple[tuple[str, ...], str]] = {
    "a metric of states": (("rank-collapse", *SMALL, "--metric", "largest_token", "--format", "csv"), "largest_token"),
    "a pattern": (("approximate", "--pattern", "leading:back=1", "--length", "8", "--method", "learned", "--format", "csv"), "leading:back=1"),
    "a map": (("generate", "maps", "--map", "halves", "--tokens", "6", "-o", "halves.safetensors"), ""),
    "a method of fitting": (("approximate", "--pattern", "window:3", "--length", "8", "--method", "narrow_start", "--format", "csv"), "narrow_start"),
    "a format": (("rank-collapse", *SMALL, "--format", "lines"), "log10_residual 0"),
    "an option": (("paths", "--help-all"), "--longest N"),
    "a command": (("uniform-entropy", "--keys", "8"), "Uniform attention over 8 keys has entropy 2.079."),
    "a gate of that command": (("uniform-entropy", "--fail-if", "entropy < 1"), "pass"),
    "a switch": (("rank-collapse", *SMALL, "--variants", "transformer-twice", "--format", "csv"), "transformer-twice"),
    "all of them in the lists": (("list", "metrics"), "max_i ‖x_i‖² / ‖X‖_F²"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("thing", WORKS)
def test_what_is_added_works(thing: str, copy: Path) -> None:
    words, said = WORKS[thing]
    done = python(copy, "-m", "attncli", *words)
    assert (done.returncode, said in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.slow
def test_a_method_that_is_added_is_tried_by_auto(copy: Path) -> None:
    code = "from attncli.fits._fitting_method_registry import list_methods_tried_by_auto; print(list_methods_tried_by_auto()[-1])"
    assert python(copy, "-c", code).stdout == "narrow_start\n"


@pytest.mark.slow
def test_a_format_that_is_added_is_that_of_its_ending(copy: Path) -> None:
    done = python(copy, "-m", "attncli", "rank-collapse", *SMALL, "-o", "report.lines")
    assert done.returncode == 0, done.stderr
    assert (copy / "report.lines").read_text().startswith("log10_residual ")


@pytest.mark.slow
def test_an_option_that_is_added_is_a_keyword(copy: Path) -> None:
    code = "import inspect, attncli; print(inspect.signature(attncli.paths).parameters['longest'].default)"
    assert python(copy, "-c", code).stdout == "None\n"


@pytest.mark.slow
def test_a_command_that_is_added_is_a_function(copy: Path) -> None:
    """ln 8, in Python too."""
    code = "import attncli; print(attncli.uniform_entropy(keys=8).rows[0].value)"
    assert python(copy, "-c", code).stdout.startswith("2.0794415")


@pytest.mark.slow
def test_a_switch_that_is_added_counts(copy: Path) -> None:
    """One more attention makes other numbers."""
    told = ("rank-collapse", *SMALL, "--format", "json", "--variants")
    once, twice = (json.loads(python(copy, "-m", "attncli", *told, name).stdout)["rows"] for name in ("transformer", "transformer-twice"))  # fmt: skip
    assert [row["value"] for row in once] != [row["value"] for row in twice]


OF_MODELS = f"""
import torch, transformers
import attncli
from attncli.tensor_subclasses.residual_split import split_tensor_forward
from attncli.tensor_subclasses.residual_split.split_tensor import RULES
from attncli.cli.main import run_command_line

print("a rule:", torch.positive in RULES)
config = transformers.Data2VecTextConfig(**{BERT!r})
transformers.Data2VecTextModel(config).save_pretrained("data2vec")
print("a family:", len(attncli.inspect_weights("./data2vec").rows) > 0)
model = ("random:bert?tiny", "--random-tokens", "6", "--format", "csv")
print("a metric of heads:", run_command_line(["inspect-model", *model, "--metric", "last_key", "-o", "heads.csv"]))
print("a switch:", run_command_line(["rank-collapse", *model, "--variants", "transformer-twice"]))
"""


@pytest.mark.slow
def test_what_is_added_for_models_works(copy: Path) -> None:
    """A rule, a family and a metric of heads are used; a reader that has not heard of a switch fails."""
    done = python(copy, "-c", OF_MODELS)
    *found, switch = done.stdout.splitlines()
    assert found == ["a rule: True", "a family: True", "a metric of heads: 0"], done.stderr
    assert "last_key" in (copy / "heads.csv").read_text()
    assert switch in [f"a switch: {code}" for code in range(1, 100)]
    assert "does not know the switch 'twice'" in done.stderr


def test_each_kind_has_its_recipe() -> None:
    titles = re.findall(r"^## (.*)$", read_guide_text("adding"), re.MULTILINE)
    assert len(titles) == 11
    assert len(BLOCK.findall(read_guide_text("adding"))) >= len(titles)
