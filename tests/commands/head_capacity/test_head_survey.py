"""`attn head-capacity MODEL`: its numbers against eager attention, slow loops and heads with known answers."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from commands import attn
from safetensors.torch import load_file
from small_checkpoints import saved

from attncli.commands.head_capacity.required_width_and_scale import smallest_logit_scale_of_map
from attncli.fits._dense_attention_map_fit import sparsify_attention_rows

IDS = ("3,5,4,3,2,1,4,5", "7,1,9,9,2,6,4,8")


def report(*arguments: str) -> dict[str, Any]:
    done = attn("head-capacity", *arguments, "-q", "--format", "json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def values(found: dict[str, Any], metric: str) -> dict[tuple[int, int], Any]:
    return {(row["layer"], row["head"]): row for row in found["rows"] if row["metric"] == metric}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    saved("BertModel", folder)
    return folder


@pytest.fixture(scope="module")
def surveyed(bert: Path) -> dict[str, Any]:
    return report(str(bert), *itertools.chain(*(("--token-ids", each) for each in IDS)))


@pytest.mark.slow
def test_a_pickled_model_is_surveyed_where_that_is_allowed(
    bert: Path, surveyed: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text((bert / "config.json").read_text())
    torch.save(load_file(bert / "model.safetensors"), tmp_path / "pytorch_model.bin")
    asked = (str(tmp_path), *itertools.chain(*(("--token-ids", each) for each in IDS)))
    assert attn("head-capacity", *asked).code == 3
    assert report(*asked, "--allow-pickle")["rows"] == surveyed["rows"]


def eager_maps(folder: Path) -> list[np.ndarray]:
    """[text, layer, head, query, key] by transformers itself, in float64."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()  # fmt: skip
    texts = [torch.tensor([[int(each) for each in ids.split(",")]]) for ids in IDS]
    with torch.no_grad():
        maps = [model(input_ids=ids, output_attentions=True).attentions for ids in texts]
    return [torch.cat(each).numpy() for each in maps]


@pytest.mark.slow
def test_input_dependence_is_that_of_eager_attention(bert: Path, surveyed: dict[str, Any]) -> None:
    first, second = eager_maps(bert)
    rows = values(surveyed, "input_dependence")
    assert len(rows) == 4
    for (layer, head), row in rows.items():
        slow = [
            0.5 * sum(abs(a - b) for a, b in zip(one, other, strict=True))
            for one, other in zip(first[layer, head], second[layer, head], strict=True)
        ]
        assert row["value"] == pytest.approx(sum(slow) / len(slow), rel=1e-9)
        assert row["n"] == 1
        assert {"shuffled", "random_init"} <= row.keys()


def test_the_sparseness_is_that_of_eager_attention(bert: Path, surveyed: dict[str, Any]) -> None:
    weights = eager_maps(bert)[0]
    most, ratio = values(surveyed, "k"), values(surveyed, "weight_ratio")
    scale = values(surveyed, "logit_scale")
    for layer, head in most:
        kept = [fewest(row, 0.95) for row in weights[layer, head]]
        assert most[layer, head]["value"] == max(map(len, kept))
        assert ratio[layer, head]["value"] == pytest.approx(max(max(row) / min(row) for row in kept))  # fmt: skip
        spread = [np.log(max(row) / min(row)) / 2 for row in weights[layer, head]]
        assert scale[layer, head]["value"] == pytest.approx(max(spread))


def fewest(row: np.ndarray, share: float) -> list[float]:
    """The smallest set of weights that holds the share, by looking at every set."""
    for size in range(1, len(row) + 1):
        best = max(itertools.combinations(row, size), key=sum)
        if sum(best) >= share:
            return list(best)
    raise AssertionError


@pytest.mark.slow
def test_a_head_that_looks_at_positions_alone_does_not_move(tmp_path: Path) -> None:
    """Word embeddings of zero: nothing of the text is left, and every dependence is exactly 0."""
    model = saved("BertModel", tmp_path)
    with torch.no_grad():
        model.embeddings.word_embeddings.weight.zero_()
    model.save_pretrained(tmp_path)
    found = report(str(tmp_path), "--token-ids", IDS[0], "--token-ids", IDS[1])
    rows = values(found, "input_dependence").values()
    assert {row["value"] for row in rows} == {0.0}
    assert all(row["random_init"] > 0.0 for row in rows)
    assert "4 of 4 heads change by less than 0.02" in json.dumps(found)


@pytest.mark.slow
def test_one_text_has_no_input_dependence(bert: Path) -> None:
    found = report(str(bert), "--token-ids", IDS[0])
    for row in values(found, "input_dependence").values():
        assert row["value"] is None
        assert row["note"] == "n/a: it takes two texts whose maps are of one size"


@pytest.mark.slow
def test_texts_are_cut_to_the_shortest(bert: Path) -> None:
    found = report(str(bert), "--token-ids", IDS[0], "--token-ids", "7,1,9,9,2")
    assert {text["tokens"] for text in found["input"]["texts"]} == {5}


def test_the_least_logits_show_the_map() -> None:
    """Rows moved to the middle of their range show it, and no smaller logits have its ratios."""
    weights = np.random.default_rng(0).dirichlet(np.ones(7), size=7)
    scale = smallest_logit_scale_of_map(weights, None)
    assert scale is not None
    logits = np.log(weights)
    logits -= (logits.max(axis=1, keepdims=True) + logits.min(axis=1, keepdims=True)) / 2
    assert np.abs(logits).max() == pytest.approx(scale)
    seen = np.tril(np.ones((7, 7), dtype=bool))
    assert smallest_logit_scale_of_map(np.where(seen, weights, 0.0), seen) is not None
    assert smallest_logit_scale_of_map(np.where(seen, weights, 0.0), None) is None


def test_the_sparsest_map_is_within_what_it_leaves_out() -> None:
    weights = np.random.default_rng(1).dirichlet(np.full(20, 0.2), size=20)
    thin = sparsify_attention_rows(weights, 0.05).toarray()
    assert 0.5 * np.abs(thin - weights).sum(axis=1).max() <= 0.05
    assert (np.count_nonzero(thin, axis=1) < 20).all()


def test_capacity_falls_with_the_width(surveyed: dict[str, Any]) -> None:
    """Eight features and eight tokens: one key a row is shown; every share is one of the draws."""
    shares = [row for row in surveyed["rows"] if row["metric"] == "capacity"]
    assert {row["keys_per_row"] for row in shares} == {1, 2}
    assert all(row["value"] in (0.0, 0.5, 1.0) and row["n"] == 2 for row in shares)
    assert {row["value"] for row in values(surveyed, "capacity_k").values()} == {2}


@pytest.mark.slow
def test_without_files_capacity_is_unknown_and_all_else_is_there() -> None:
    found = report("random:t5?tiny&layers=1", "--length", "8")
    assert all(row["value"] is None and row["note"].startswith("n/a: ") for row in values(found, "capacity_k").values())  # fmt: skip
    assert all(row["value"] is not None for row in values(found, "own_map_d").values())
    assert any("files" in warning for warning in found["warnings"])


@pytest.mark.slow
def test_windows_have_no_one_map() -> None:
    found = report("random:swin?tiny")
    notes = {row["note"] for row in found["rows"] if row["metric"] == "k" and row["value"] is None}
    assert notes
    assert all("windows" in note for note in notes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--pattern", "previous"), "--pattern goes with one head: name it with --head"),
        (("--width", "4"), "no such option: --width"),
        (("-o", "fit.safetensors"), "goes with --head"),
    ],
)
def test_what_does_not_go_with_it_is_refused(bert: Path, options: tuple[str, ...], words: str) -> None:  # fmt: skip
    done = attn("head-capacity", str(bert), *options)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1
