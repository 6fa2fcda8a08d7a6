"""Keywords of questions: their types, their help, and values of other libraries."""

import inspect
import subprocess
import sys
import typing
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import attncli as attn

SMALL: dict[str, Any] = {"layers": 2, "tokens": 5, "width": 8, "heads": 2, "seeds": 2}
QUESTIONS = [
    name
    for name in attn.PUBLIC
    if inspect.isfunction(getattr(attn, name)) and name != "read"  # which asks nothing
]


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_keyword_is_described_in_help(name: str) -> None:
    function = getattr(attn, name)
    said = dict(
        line.strip().split(": ", 1)
        for line in (inspect.getdoc(function) or "").partition("Keywords:\n")[2].splitlines()
    )
    known = [p.name for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_KEYWORD]  # fmt: skip
    assert set(said) == set(known)
    assert all(said.values())


@pytest.mark.parametrize("name", QUESTIONS)
def test_help_speaks_of_keywords_and_not_of_flags(name: str) -> None:
    said = inspect.getdoc(getattr(attn, name)) or ""
    assert "--" not in said
    assert "SOURCE" not in said


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_keyword_has_a_type_and_every_question_an_answer(name: str) -> None:
    signature = inspect.signature(getattr(attn, name))
    assert inspect.isclass(signature.return_annotation)
    for parameter in signature.parameters.values():
        assert parameter.annotation is not parameter.empty, parameter
        assert not isinstance(parameter.annotation, str), parameter


@pytest.mark.parametrize("name", QUESTIONS)
def test_types_take_the_default_and_none(name: str) -> None:
    """A default that its own type refuses would be a lie of one of them."""
    for parameter in inspect.signature(getattr(attn, name)).parameters.values():
        optional = parameter.default is not parameter.empty
        if optional and parameter.annotation is not Any:
            assert type(None) in typing.get_args(parameter.annotation), parameter


def asked_with(**keywords: Any) -> Any:
    return attn.rank_collapse(**SMALL | keywords).rows


def test_none_is_the_default_everywhere() -> None:
    parameters = inspect.signature(attn.rank_collapse).parameters
    nothing = dict.fromkeys(set(parameters) - set(SMALL) - {"source"})
    assert asked_with(**nothing) == asked_with()
    plain = {"pattern": "previous", "length": 6, "method": "cyclic"}
    parameters = inspect.signature(attn.approximate).parameters
    nothing = dict.fromkeys(set(parameters) - set(plain))
    assert attn.approximate(**plain, **nothing).rows == attn.approximate(**plain).rows


@pytest.mark.parametrize(
    "scale",
    [1, np.float32(1), np.array(1.0), np.int64(1), torch.tensor(1.0, requires_grad=True)],
    ids=lambda scale: type(scale).__name__,
)
def test_one_number_of_any_library_is_a_number(scale: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asked_with(init_scale=scale) == asked_with()


def test_truth_of_any_library_is_truth() -> None:
    for yes in (np.bool_(True), np.array(True), torch.tensor(True)):
        assert asked_with(remove_outlier=yes) == asked_with(remove_outlier=True)


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"init_scale": np.ones(1)}, "`init_scale` must be a number, not array([1.])."),
        ({"init_scale": torch.ones((), device="meta")}, "`init_scale` must be a number, not"),
        ({"seeds": np.bool_(True)}, "`seeds` must be a whole number, not"),
        ({"exact": 1}, "`exact` must be True or False, not 1."),
        ({"variants": [3.5]}, "`variants` must be a list of texts, not [3.5]."),
        ({"variants": b"SAN"}, "`variants` must be a list of texts, not b'SAN'."),
        ({"variants": {"SAN": 1}}, "`variants` must be a list of texts, not {'SAN': 1}."),
        ({"text": Path("x.txt")}, "`text` must be a list of texts, not"),
        ({"norm": 3}, "`norm` must be a text, not 3."),
        ({"progress": "yes"}, "`progress` must be True or False or a function, not 'yes'."),
        ({"pictures": 1}, "`pictures` must be True or False, not 1."),
    ],
)
def test_what_is_of_another_type_is_refused_before_anything_else(
    keywords: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(attn.errors.UsageError) as refused:
        asked_with(**keywords)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"command": 3}, "`command` must be a text, not 3."),
        ({"command": "rank-collapse", "model": 3}, "`model` must be a list of texts, not 3."),
        ({"command": "rank-collapse", "into": 3}, "`into` must be a text, not 3."),
        ({"command": "rank-collapse", "progress": 3}, "`progress` must be True or False or"),
    ],
)
def test_a_sweep_refuses_alike(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(attn.errors.UsageError) as refused:
        attn.sweep(**keywords)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize("name", ["generate_maps", "inspect_model", "approximate"])
def test_a_file_of_tensors_ends_as_one(name: str, tmp_path: Path) -> None:
    wrong = tmp_path / "x.npz"
    asked: dict[str, Any] = {
        "generate_maps": lambda: attn.generate_maps(wrong, map="uniform"),
        "inspect_model": lambda: attn.inspect_model("random:gpt2", save_maps=wrong),
        "approximate": lambda: attn.approximate(pattern="previous", save_module=wrong),
    }
    with pytest.raises(attn.errors.UsageError, match=r"it must end in \.safetensors"):
        asked[name]()
    assert not wrong.exists()


def test_what_must_be_given_must_not_be_empty(tmp_path: Path) -> None:
    for nothing in ([], ()):
        with pytest.raises(attn.errors.UsageError, match="`map` is empty: give at least one"):
            attn.generate_maps(tmp_path / "x.safetensors", map=nothing)
    assert list(tmp_path.iterdir()) == []


def test_progress_is_seen_where_there_is_no_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """As in a notebook: one line that is written over, and blank in the end."""
    attn.rank_collapse(**SMALL, progress=True)
    out, err = capfd.readouterr()
    lines = err.split("\r")
    assert (out, "\n" in err, lines[-1]) == ("", False, "")
    assert any(" of " in line for line in lines)
    assert lines[-2].strip() == ""
    assert len(lines[-2]) == len(lines[-3])


def test_rooms_are_reached_at_once_and_a_star_brings_no_torch() -> None:
    code = (
        "import sys, attncli as attn\n"
        "assert attn.errors.InputError.exit_code == 3\n"
        "from attncli import *\n"
        "assert rank_collapse and errors\n"
        "assert 'torch' not in sys.modules\n"
        "assert 'Monitor' in dir(attn)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


TYPED = """
import numpy as np
from pathlib import Path
import attncli as attn

attn.rank_collapse(seeds=np.int64(3), init_scale=np.float32(3), text_file=Path("x"), exact=None)
attn.inspect_model("gpt2", layers=[0, 1], heads="5.1")
attn.attribute("gpt2", token=-1)
attn.reproduce.circle(width=np.int64(8), save_training=Path("x"))
attn.inspect_maps("maps.npy", labels=Path("x"))
attn.approximate(pattern=Path("x.npy"), logit_budget=3)
attn.inspect_maps(None, metric="sink", labels=[0, 1], pairs=np.int64(2)).check("sink > 0")
attn.generate_maps(Path("x"), map=["uniform"]).exists()
attn.errors.UsageError("x")

attn.rank_collapse(seeds="x")  # type: ignore[arg-type]
attn.rank_collapse(no_such=3)  # type: ignore[call-arg]
attn.inspect_maps(None, metric="sink").chek("sink > 0")  # type: ignore[attr-defined]
"""
"""Under `--strict` an ignored error that is none is an error."""

MYPY = """
[mypy]
strict = True
[mypy-attncli.*]
follow_imports = silent
[mypy-torch.*,transformers.*,scipy.*,networkx.*,threadpoolctl.*,matplotlib.*,pandas.*,safetensors.*,huggingface_hub.*,tokenizers.*,IPython.*,rich.*,typer.*]
follow_imports = skip
follow_imports_for_stubs = True
"""
"""What users write meets the stubs alone: reading those of other libraries would take half a minute."""


@pytest.mark.slow
def test_type_checkers_let_pass_what_works(tmp_path: Path) -> None:
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "mypy.ini").write_text(MYPY)
    files = (f"--config-file={tmp_path / 'mypy.ini'}", f"--cache-dir={tmp_path / 'cache'}")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *files, str(tmp_path / "typed.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(attn.__file__).parent.parent,
    )
    assert done.returncode == 0, done.stdout
