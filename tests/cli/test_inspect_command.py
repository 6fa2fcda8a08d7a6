"""`attn inspect-model` as it is typed: the screen, choices, maps that are saved and read back, refusals."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import attn
from hand_built import hand_built
from safetensors.torch import load_file, save_file
from small_checkpoints import saved

from attncli.models.quiet_libraries import silence_libraries

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hand-built model on disk."""
    path = tmp_path_factory.mktemp("hand-built")
    with silence_libraries():
        hand_built().float().save_pretrained(path)
    return path


IDS = ("--token-ids", ",".join(map(str, range(5, 25))))


def rows(*arguments: str) -> list[dict[str, Any]]:
    return rows_by("inspect-model", *arguments)


def map_rows(*arguments: str) -> list[dict[str, Any]]:
    return rows_by("inspect-maps", *arguments)


def weight_rows(*arguments: str) -> list[dict[str, Any]]:
    return rows_by("inspect-weights", *arguments)


def rows_by(command: str, *arguments: str) -> list[dict[str, Any]]:
    outcome = attn(command, *arguments, "--format", "json")
    assert outcome.code == 0, outcome.err
    found: list[dict[str, Any]] = json.loads(outcome.out)["rows"]
    return found


def test_the_default_fits_one_screen_and_says_what_the_heads_do(folder: Path) -> None:
    outcome = attn("inspect-model", str(folder), *IDS)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert len(lines) <= 24
    assert "; 12 heads: " in lines[0]
    assert "6 uniform, 2 self" in lines[0]
    assert any(line.split() == ["0", "P█", "S█", "U█", "E█", "D▒", "U█"] for line in lines)
    assert any(line.split() == ["1", "I█", "E█", "U█", "U█", "U█", "U█"] for line in lines)
    assert "uniform attention: " in outcome.out


@pytest.mark.slow
def test_findings_count_what_their_nulls_would_show(folder: Path) -> None:
    """With random weights no head rests on one token; on shuffled text the same do, as they look at positions."""
    out = attn("inspect-model", str(folder), *IDS, "--with-random-init", "--with-shuffled-text").out
    (sinks,) = (line for line in out.splitlines() if line.split()[:1] == ["sinks"])
    assert "; random weights: 0 heads; shuffled text: 1 head; texts as short as 20" in sinks
    (even,) = (line for line in out.splitlines() if line.split()[:2] == ["uniform", "heads"])
    assert even.endswith(
        "; random weights: 12 heads; shuffled text: 7 heads; the first line counts 1 of them as induction"
    )


def test_spectra_that_have_not_settled_say_so(tmp_path: Path) -> None:
    """Maps of independent numbers have singular values side by side, which an iteration tells apart slowly."""
    file = str(tmp_path / "maps.safetensors")
    scores = 0.5 * torch.randn(1, 400, 400, generator=torch.Generator().manual_seed(0))
    save_file({"layers.0.attention": scores.softmax(-1)}, file)
    outcome = attn("inspect-maps", file, "--metric", "spectra", "--format", "json")
    assert "singular values of 1 of 1 map had not settled after 6 rounds" in outcome.err
    notes = [row["note"] for row in json.loads(outcome.out)["rows"]]
    assert all("not settled" in note for note in notes)


@pytest.mark.slow
def test_what_heads_write_is_the_same_beside_metrics_that_ask_for_the_maps_again(
    folder: Path,
) -> None:
    alone = rows(str(folder), *IDS, "--metric", "head_contribution")
    beside = rows(str(folder), *IDS, "--metric", "s1,head_contribution")
    assert [row for row in beside if row["metric"] == "head_contribution"] == alone
    assert all(row["value"] is not None for row in alone)


def test_one_metric_is_a_grid_of_numbers_with_its_null(folder: Path) -> None:
    out = attn("inspect-model", str(folder), *IDS, "--metric", "sink").out
    lines = out.splitlines()
    assert lines[2] == "sink; uniform attention: 0.1799"
    assert lines[3].split() == ["layer", "0", "1", "2", "3", "4", "5"]
    assert lines[4].split()[2] == "1.00"


def test_heads_are_ranked(folder: Path) -> None:
    outcome = attn("inspect-model", str(folder), *IDS, "--metric", "roles", "--top", "2", "--sort", "induction")  # fmt: skip
    lines = outcome.out.splitlines()
    assert "heads by induction, falling" in lines[2]
    assert lines[4].split()[0] == "1.0"
    assert len(lines) == 6


def test_heads_are_ranked_from_the_smallest_number(folder: Path) -> None:
    found = rows(str(folder), *IDS, "--metric", "sink", "--sort", "sink:rising")
    values = [row["value"] for row in found]
    assert values == sorted(values)
    assert values[0] < values[-1]


@pytest.mark.slow
def test_a_text_that_does_not_fit_is_refused_before_it_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 MiB of it are the strips'."""
    monkeypatch.setattr("attncli.resource_limits.available_memory", lambda: 60 * 2**20)
    outcome = attn("inspect-model", str(folder), *IDS)
    assert outcome.code == 4
    assert "a text of 20 tokens needs about" in outcome.err
    assert attn("inspect-model", str(folder), *IDS, "--strip-memory", "2").code == 0
    assert attn("inspect-model", str(folder), *IDS, "--strip-memory", "70").code == 4


@pytest.mark.slow
def test_layers_and_heads_are_chosen_in_several_ways(folder: Path) -> None:
    def heads(*arguments: str) -> list[tuple[int, int]]:
        found = rows(str(folder), *IDS, "--metric", "sink", *arguments)
        return [(row["layer"], row["head"]) for row in found]

    assert heads("--layers", "1", "--heads", "0,2-3") == [(1, 0), (1, 2), (1, 3)]
    assert heads("--heads", "0.4,1.0") == [(0, 4), (1, 0)]
    assert len(heads("--layers", "0-1")) == 12


def test_saved_maps_give_the_same_numbers(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "maps.safetensors"
    names = ("--metric", "attention,spectra")
    outcome = attn("inspect-model", str(folder), *IDS, *names, "--heads", "1-2,1.0", "--save-maps", str(file), "--format", "json")  # fmt: skip
    assert outcome.code == 0
    assert f"the maps of 5 heads over 20 tokens: 0.0088 MB → {file}" in outcome.err
    before = json.loads(outcome.out)["rows"]
    after = map_rows(str(file), *names)
    beyond = {
        "head_contribution",
        "max_logit",
        "qk_clip",
    }  # a map does not show what its rows were made of
    compared = [row for row in before if row["metric"] not in beyond]
    again = [row for row in after if row["metric"] not in beyond]
    assert [(r["metric"], r["layer"], r["head"]) for r in compared] == [
        (r["metric"], r["layer"], r["head"]) for r in again
    ]
    for old, new in zip(compared, again, strict=True):
        assert same(new["value"], old["value"]), old
        assert same(new.get("uniform"), old.get("uniform")), old


def same(new: float | None, old: float | None) -> bool:
    if new is None or old is None:
        return new is old
    return new == pytest.approx(old, rel=1e-5, abs=1e-6)


def test_layers_and_heads_of_saved_maps_are_chosen(folder: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "maps.safetensors")
    attn("inspect-model", str(folder), *IDS, "--metric", "sink", "--heads", "1-2", "--save-maps", file)  # fmt: skip
    found = map_rows(file, "--metric", "sink", "--layers", "1", "--heads", "2,5")
    assert [(row["layer"], row["head"]) for row in found] == [(1, 2)]


def test_layers_and_heads_of_weights_are_chosen(folder: Path) -> None:
    found = weight_rows(str(folder), "--layers", "1", "--heads", "0,4-5")  # fmt: skip
    heads = [(row.get("layer"), row.get("head")) for row in found if row["metric"] == "qk_trace"]
    assert heads == [(1, 0), (1, 4), (1, 5)]


def test_saved_maps_are_as_other_programs_expect_them(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "maps.safetensors"
    attn("inspect-model", str(folder), *IDS, "--metric", "sink", "--heads", "0.0", "--save-maps", str(file))  # fmt: skip
    tensors = load_file(file)
    assert set(tensors) == {"layers.0.attention", "layers.0.visible"}
    weights = tensors["layers.0.attention"]
    assert weights.shape == (1, 20, 20)
    assert torch.equal(tensors["layers.0.visible"].bool(), torch.ones(20, 20).tril().bool())
    assert torch.allclose(weights[0, 1:].diagonal(), torch.ones(19))


def test_maps_of_other_programs_are_read(tmp_path: Path) -> None:
    file = tmp_path / "maps.safetensors"
    attn("generate", "maps", "--map", "uniform:causal=true", "--tokens", "64", "-o", str(file))
    found = {row["metric"]: row["value"] for row in map_rows(str(file), "--metric", "attention")}
    assert found["entropy"] == pytest.approx(3.2057531)
    assert found["entropy_normalised"] == pytest.approx(1.0)
    assert found["sink"] == pytest.approx(0.0741233, rel=1e-6)
    assert found["head_contribution"] is None


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        (
            {"x": torch.ones(2, 2)},
            "row 0 of head 0 in x, read as [query, key], is no attention",
        ),
        ({"layers.0.attention": torch.eye(2)[None] + 0.5j}, "layers.0.attention holds "),
        ({"layers.0.attention": torch.ones(2, 2)}, "not [head, query, key]"),
        ({"layers.0.attention": torch.ones(1, 2, 2)}, "row 0 of head 0 in layers.0.attention"),
        ({"layers.0.attention": torch.full((1, 2, 2), float("nan"))}, "is no attention"),
    ],
)
def test_files_that_hold_no_attention_are_refused(
    tensors: dict[str, torch.Tensor], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "maps.safetensors"
    save_file(tensors, file)
    outcome = attn("inspect-maps", str(file))
    assert outcome.code == 3
    assert said in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--metric", "entrpy"), "did you mean 'entropy'?"),
        (
            ("--metric", "qk_trace"),
            "--metric qk_trace measures weights and needs no run: ask attn inspect-weights.",
        ),
        (("--layers", "7"), "there is no layer 7: GPT2Model has layers 0 to 1."),
        (("--heads", "9"), "--heads names no head of the model: they are 0 … 5."),
        (("--heads", "a"), "--heads a: write numbers and ranges"),
        (("--top", "0"), "--top 0: it must be at least 1."),
        (("--metric", "sink", "--sort", "entropy"), "add --metric entropy"),
        (("--sort", "sink:up"), "write sink or sink:rising"),
        (("--layers", "3-1"), "--layers 3-1: a range rises, as in 1-3."),
        (("--metric", "states", "--top", "2"), "--top and --sort need a metric of heads"),
        (("--layers", "1", "--heads", "0.4"), "--heads names no head of the model"),
        (("--strip-memory", "0"), "--strip-memory 0: it must be at least 1 MiB."),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...], said: str, folder: Path) -> None:
    outcome = attn("inspect-model", str(folder), *IDS, *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tokens", "4"), "no such option: --tokens"),
        (("--layers", "3-1"), "a range rises"),
        (("--sort", "sink"), "no such option: --sort"),
        (
            ("--heads", "1.0"),
            "--heads 1.0: name layers and heads apart, as in --layers 5 --heads 1.",
        ),
    ],
)
def test_what_cannot_be_of_weights_is_refused(
    arguments: tuple[str, ...], said: str, folder: Path
) -> None:
    outcome = attn("inspect-weights", str(folder), *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


def test_maps_take_no_options_of_models(tmp_path: Path) -> None:
    file = tmp_path / "maps.safetensors"
    attn("generate", "maps", "--map", "uniform", "-o", str(file))
    for option in ("--with-random-init", "--text"):
        outcome = attn("inspect-maps", str(file), option, "x")
        assert (outcome.code, f"no such option: {option}" in outcome.err) == (2, True)


def test_layers_and_heads_that_no_saved_map_has_are_refused(folder: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "maps.safetensors")
    attn("inspect-model", str(folder), *IDS, "--heads", "0.0", "--save-maps", file)
    assert "layer 9 has no attention" in attn("inspect-maps", file, "--layers", "9").err
    assert "--heads names no head" in attn("inspect-maps", file, "--heads", "3").err


@pytest.mark.slow
@pytest.mark.parametrize("model", ["random:vit?layers=1", "random:bert?layers=1"])
def test_the_size_that_is_announced_is_that_of_the_file(model: str, tmp_path: Path) -> None:
    """Images have as many patches as they have, whatever a text's length."""
    file = tmp_path / "maps.safetensors"
    said = attn("inspect-model", model, "--metric", "sink", "--save-maps", str(file)).err
    found = re.search(r": ([\d.]+) MB", said)
    assert found is not None
    header = 8 + int.from_bytes(file.read_bytes()[:8], "little")  # rows of the run are kept there
    assert float(found[1]) == pytest.approx((file.stat().st_size - header) / 1e6, rel=0.05)


def test_gates_see_the_model_and_not_its_nulls(folder: Path) -> None:
    """Nulls are columns, so that no condition meets them by accident."""
    arguments = ("inspect-model", str(folder), *IDS, "--metric", "sink", "-q")
    assert attn(*arguments, "--fail-if", "sink[layer=0, head=1] < 0.9").code == 0
    assert attn(*arguments, "--fail-if", "max(sink) > 0.9").code == 1


@pytest.mark.slow
def test_maps_and_grids_are_drawn(folder: Path, tmp_path: Path) -> None:
    for ending in ("png", "svg"):
        file = tmp_path / f"heads.{ending}"
        outcome = attn("inspect-model", str(folder), *IDS, "--heads", "0.0,1.0", "--plot", str(file))  # fmt: skip
        assert outcome.code == 0, outcome.err
        assert file.stat().st_size > 10_000
    assert "head 0.0" in attn("inspect-model", str(folder), *IDS, "--heads", "0.0", "--plot").out  # fmt: skip


@pytest.mark.slow
def test_other_kinds_of_models_are_inspected() -> None:
    """Cross attention, images, hybrids: one grid for each kind of attention, with true layer numbers."""
    out = attn("inspect-model", "random:t5?layers=2", "--random-tokens", "12").out
    assert "\nencoder, self: P previous-token" in out
    assert all(f"\n{words}\n" in out for words in ("decoder, self", "decoder, cross"))
    found = rows("random:vit?layers=1", "--metric", "induction,self_attention")
    assert {row["note"] for row in found if row["metric"] == "induction"} == {
        "n/a: only a text that repeats itself shows this"
    }


def test_spreads_are_over_texts(tmp_path: Path) -> None:
    saved("GPT2LMHeadModel", tmp_path)
    found = rows(str(tmp_path), "--random-tokens", "12", "--samples", "3", "--metric", "entropy")
    assert all(row["n"] == 3 and row["spread"] > 0 for row in found)
