"""`--inputs embeddings`: texts that make a head of layer 0 show a pattern, against every text there is."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from commands import attn
from small_checkpoints import saved

from attncli.commands.head_capacity.one_head.search_tokens_for_pattern import (
    attention_logits_of_tokens,
    losses_of_candidate_tokens,
    search_best_tokens,
)
from attncli.commands.head_capacity.one_head.token_queries_and_keys import (
    TokenTable,
    build_token_query_key_table,
)
from attncli.head_weights.trained_head import read_head
from attncli.models.loading.load_model import load_model
from attncli.models.loading.load_options import LoadOptions
from attncli.progress import ignore_progress

LENGTH = 3
KINDS = {"BertModel": "row,column", "GPT2LMHeadModel": "causal"}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    saved(request.param, path)
    return path


def table_of(folder: Path) -> tuple[TokenTable, bool]:
    head = read_head(str(folder), "0.1")
    checkpoint = load_model(str(folder), LoadOptions(dtype="float64"))
    return build_token_query_key_table(checkpoint, head, LENGTH, 0, ignore_progress), head.causal


def eager_map(folder: Path, ids: list[int]) -> np.ndarray:
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()  # fmt: skip
    with torch.no_grad():
        maps = model(input_ids=torch.tensor([ids]), output_attentions=True).attentions
    return maps[0][0, 1].numpy()


def test_the_table_makes_the_models_own_maps(folder: Path) -> None:
    table, causal = table_of(folder)
    for chosen in np.random.default_rng(0).integers(len(table.ids), size=(3, LENGTH)):
        logits = attention_logits_of_tokens(table, chosen, causal)
        made = np.exp(logits - logits.max(axis=1, keepdims=True))
        made /= made.sum(axis=1, keepdims=True)
        assert np.allclose(made, eager_map(folder, table.ids[chosen].tolist()), atol=1e-6)


def divergence(table: TokenTable, target: np.ndarray, causal: bool, chosen: np.ndarray) -> float:
    """Σ_i KL(A_i ‖ M_i), one weight at a time."""
    total = 0.0
    for logits, wanted in zip(
        attention_logits_of_tokens(table, chosen, causal), target, strict=True
    ):
        made = np.exp(logits) / np.exp(logits).sum()
        total += sum(a * np.log(a / m) for a, m in zip(wanted, made, strict=True) if a > 0.0)
    return total


def random_target(causal: bool) -> np.ndarray:
    target = np.random.default_rng(1).dirichlet(np.ones(LENGTH), size=LENGTH)
    target = np.tril(target) if causal else target
    return target / target.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("position", range(LENGTH))
def test_an_exchange_changes_what_it_says(folder: Path, position: int) -> None:
    """Differences between candidates are those of the whole divergence."""
    table, causal = table_of(folder)
    target, chosen = random_target(causal), np.array([4, 2, 7])
    said = losses_of_candidate_tokens(table, target, causal, chosen, position)
    slow = []
    for candidate in range(len(table.ids)):
        chosen[position] = candidate
        slow.append(divergence(table, target, causal, chosen))
    assert np.allclose(said - said[0], np.array(slow) - slow[0], atol=1e-5)


def test_what_is_found_is_the_best_of_all_texts(folder: Path) -> None:
    table, causal = table_of(folder)
    target = random_target(causal)
    every = itertools.product(range(len(table.ids)), repeat=LENGTH)
    least = min(divergence(table, target, causal, np.array(text)) for text in every)  # fmt: skip
    found = search_best_tokens(table, target, causal, None, range(40))
    assert divergence(table, target, causal, found.indices) == pytest.approx(least, abs=1e-4)


def report(*arguments: str) -> dict[str, Any]:
    done = attn("head-capacity", *arguments, "-q", "--format", "json")
    assert done.code in (0, 1), done.err
    return json.loads(done.out)


def test_the_report_is_about_the_models_own_map(folder: Path) -> None:
    found = report(str(folder), "--head", "0.1", "--inputs", "embeddings", "--pattern", "previous", "--length", "6")  # fmt: skip
    rows = [row for row in found["rows"] if row.get("method") == "tokens"]
    ids = [row["value"] for row in rows if row["metric"] == "token_id"]
    assert [row["position"] for row in rows if row["metric"] == "token_id"] == list(range(6))
    target = np.eye(6, k=-1)
    target[0, 0] = 1.0
    errors = 0.5 * np.abs(eager_map(folder, ids) - target).sum(axis=1)
    said = {row["metric"]: row["value"] for row in rows}
    assert said["total_variation"] == pytest.approx(errors.max(), rel=1e-6)
    assert said["total_variation_mean"] == pytest.approx(errors.mean(), rel=1e-6)
    assert "real tokens" in found["headline"]


@pytest.mark.parametrize(
    ("place", "length", "words"),
    [
        ("1.0", "6", "--inputs embeddings is for heads of layer 0"),
        (None, "6", "--inputs embeddings goes with --head 0.HEAD"),
        ("0.0", "40", "positions for 12 tokens"),
    ],
)
def test_what_has_no_embeddings_is_refused(
    folder: Path, place: str | None, length: str, words: str
) -> None:
    chosen = [str(folder), *(["--head", place] if place else [])]
    done = attn("head-capacity", *chosen, "--inputs", "embeddings", "--length", length, "--pattern", "previous")  # fmt: skip
    assert done.code == 2
    assert words in done.err
