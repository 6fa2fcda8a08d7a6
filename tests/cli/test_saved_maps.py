"""A file of maps tells what the run has told that saved them: the same roles, findings and numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import attn
from hand_built import hand_built
from safetensors.torch import load_file, safe_open, save_file

from attncli.models.quiet_libraries import silence_libraries

torch.set_num_threads(1)

Number = tuple[Any, ...]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("hand-built")
    with silence_libraries():
        hand_built().save_pretrained(path)
    return str(path)


def both(tmp_path: Path, *run: str, file: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """The report of a run that saves its maps, and that of the file."""
    maps = str(tmp_path / "maps.safetensors")
    outcomes = [
        attn("inspect-model", *run, "--save-maps", maps, "-q", "--format", "json"),
        attn("inspect-maps", maps, *file, "-q", "--format", "json"),
    ]
    for outcome in outcomes:
        assert outcome.code == 0, outcome.err
    first, second = (json.loads(outcome.out) for outcome in outcomes)
    return first, second


def numbers(report: Any) -> dict[Number, Any]:
    names = ("metric", "layer", "head", "stack", "kind", "span", "role")
    return {tuple(row.get(name) for name in names): row for row in report["rows"]}


def assert_same(run: Any, file: Any) -> None:
    assert file["findings"] == run["findings"]
    assert file["headline"].partition(": ")[2] == run["headline"].partition(": ")[2]
    ours, theirs = numbers(file), numbers(run)
    assert list(ours) == list(theirs)
    assert_same_numbers(ours, theirs)


def assert_same_numbers(ours: dict[Number, Any], theirs: dict[Number, Any]) -> None:
    for place, row in theirs.items():
        for name in ("value", "uniform"):
            assert same(ours[place].get(name), row.get(name)), (place, name)


def same(new: float | None, old: float | None) -> bool:
    if new is None or old is None:
        return new is old
    return new == pytest.approx(old, rel=1e-5, abs=1e-6)


IDS = ("--token-ids", ",".join(map(str, range(5, 25))))


@pytest.mark.slow
def test_heads_that_are_built_play_the_same_roles_in_the_file(folder: str, tmp_path: Path) -> None:
    run, file = both(tmp_path, folder, *IDS)
    assert_same(run, file)
    assert "induction heads" in [finding["about"] for finding in file["findings"]]
    assert file["input"]["roles_on"] == "random tokens repeated twice"


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        "random:bert?tiny",
        "random:t5?tiny",
        "random:xlnet?tiny",
        "random:diffllama?tiny&layers=2",
        "random:gpt_oss?tiny",
        "random:vit?tiny",
        "random:lxmert?tiny",
    ],
)
def test_files_of_other_architectures_say_the_same(model: str, tmp_path: Path) -> None:
    text = () if "vit" in model else ("--random-tokens", "24")
    assert_same(*both(tmp_path, model, *text))


@pytest.mark.slow
def test_a_file_of_a_hybrid_has_its_softmax_heads_and_says_so(tmp_path: Path) -> None:
    run, file = both(tmp_path, "random:qwen3_next?tiny&layers=4", "--random-tokens", "24")
    ours, theirs = numbers(file), numbers(run)
    assert {row["layer"] for row in file["rows"] if row.get("head") is not None} == {3}
    assert_same_numbers(ours, {place: theirs[place] for place in ours})
    assert "not looked at: gated delta nets in layers 0-2" in file["findings"][0]["text"]


@pytest.mark.slow
def test_roles_are_kept_though_the_run_was_not_asked_for_them(folder: str, tmp_path: Path) -> None:
    maps = str(tmp_path / "maps.safetensors")
    whole = json.loads(attn("inspect-model", folder, *IDS, "--format", "json").out)
    attn("inspect-model", folder, *IDS, "--metric", "sink", "--save-maps", maps)
    file = json.loads(attn("inspect-maps", maps, "--format", "json").out)

    def roles(report: Any) -> list[Any]:
        return [(row["layer"], row["head"], row["role"]) for row in report["rows"] if row["metric"] == "role"]  # fmt: skip

    assert roles(file) == roles(whole)


@pytest.mark.slow
def test_chosen_heads_and_layers_are_the_same(folder: str, tmp_path: Path) -> None:
    run, file = both(tmp_path, folder, *IDS, "--heads", "0-2", "--layers", "1")
    assert_same(run, file)
    _, part = both(tmp_path, folder, *IDS, file=("--heads", "1.0,0.1"))
    assert {(row["layer"], row["head"]) for row in part["rows"] if row["head"] is not None} == {(0, 1), (1, 0)}  # fmt: skip


@pytest.mark.slow
def test_maps_of_a_float64_model_keep_their_digits(folder: str, tmp_path: Path) -> None:
    maps = tmp_path / "maps.safetensors"
    attn("inspect-model", folder, *IDS, "--dtype", "float64", "--save-maps", str(maps), "-q")
    assert load_file(maps)["layers.0.attention"].dtype == torch.float64


def test_maps_of_others_say_that_roles_are_told_from_them_alone(tmp_path: Path) -> None:
    file = str(tmp_path / "maps.safetensors")
    attn("generate", "maps", "--map", "uniform", "-o", file)
    outcome = attn("inspect-maps", file)
    assert outcome.code == 0
    assert "these roles come from the saved maps" in outcome.err


def test_attention_within_windows_has_no_one_map_to_save(tmp_path: Path) -> None:
    file = tmp_path / "maps.safetensors"
    outcome = attn("inspect-model", "random:swin?tiny", "--metric", "sink", "--save-maps", str(file))  # fmt: skip
    assert outcome.code == 3
    assert "attends within" in outcome.err
    assert "a file holds one map of each head" in outcome.err
    assert not file.exists()


@pytest.mark.parametrize(
    ("visible", "said"),
    [
        (torch.ones(5, 5).tril(), "row 0 of head 0 in layers.0.attention has 0.8 of its weight on keys"),
        (torch.full((5, 5), torch.nan), "layers.0.visible holds what is neither 1 nor 0"),
    ],
)  # fmt: skip
def test_a_mask_that_is_not_the_maps_own_is_refused(
    visible: torch.Tensor, said: str, tmp_path: Path
) -> None:
    """Else entropy were told as 1.5 times that of uniform attention."""
    path = tmp_path / "maps.safetensors"
    held = {"layers.0.attention": torch.full((1, 5, 5), 0.2), "layers.0.visible": visible}
    save_file(held, path)
    outcome = attn("inspect-maps", str(path))
    assert (outcome.code, outcome.out, said in outcome.err) == (3, "", True), outcome.err


def test_two_tensors_of_one_layer_are_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "maps.safetensors")
    maps = torch.full((1, 4, 4), 0.25)
    save_file({"layers.0.attention": maps, "layers.00.attention": maps.clone()}, file)
    outcome = attn("inspect-maps", file)
    assert outcome.code == 3
    assert "layers.0.attention and layers.00.attention are both the self attention of layer 0" in outcome.err.replace("layers.00.attention and layers.0.attention", "layers.0.attention and layers.00.attention")  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"rows": "{"},
        {"rows": '[{"metric": "sink"}]'},
        {"layers": "[]"},
        {"keys": "[1]"},
        {"keys": '{"layers.0.attention": 3}'},
    ],
)
def test_metadata_that_are_not_ours_are_refused(
    change: dict[str, str], folder: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "maps.safetensors")
    attn("inspect-model", folder, *IDS, "--metric", "sink", "--save-maps", file)
    with safe_open(file, framework="pt") as opened:
        said = opened.metadata()
    save_file(load_file(file), file, {**said, **change})
    outcome = attn("inspect-maps", file)
    assert outcome.code == 3
    assert "its metadata are not what attn inspect-model --save-maps FILE writes" in outcome.err
