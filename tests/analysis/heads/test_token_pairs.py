"""The strongest pairs of tokens: equal to a slow search over whole maps, however the maps are cut; the right words."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import attn
from oracles.forwards.tiny_models import TINY
from small_checkpoints import model_of, saved

from attncli.analysis.heads.forward_passes.head_observer import (
    PassRequest,
    PassResult,
    measure_forward_pass,
)
from attncli.analysis.heads.forward_passes.strongest_token_pairs import StrongestPairs
from attncli.analysis.heads.forward_passes.uniform_attention_control import UniformAttentionControl
from attncli.analysis.heads.report_rows.head_rows import HeadObservations
from attncli.analysis.heads.report_rows.token_names import TokenNames
from attncli.analysis.heads.report_rows.token_pairs import (
    describe_strongest_token_pair,
    token_pair_rows,
)
from attncli.capture import AttentionSite, Strip
from attncli.capture.model_structure.blocks import find_block_stacks
from attncli.models.inputs.model_input import ModelInput, label_decoder_tokens
from attncli.records import Row
from attncli.render._table_cells import format_token_pair

SITE = AttentionSite("h", 2, "self", "full", "h.2.attn")
torch.set_num_threads(1)


def slow(weights: np.ndarray, visible: np.ndarray, most: int) -> list[list[tuple[int, int]]]:
    """(query, key) of every head by two loops: of each key the query furthest above uniform attention."""
    found = []
    for head in weights:
        best: dict[int, tuple[float, int]] = {}
        for query, row in enumerate(head):
            for key in np.flatnonzero(visible[query]):
                above = row[key] - 1.0 / visible[query].sum()
                if int(key) not in best or above > best[int(key)][0]:
                    best[int(key)] = (above, query)
        order = sorted(best, key=lambda key: -best[key][0])
        found.append([(best[key][1], key) for key in order[:most]])
    return found


def masked_maps(mask: str) -> tuple[torch.Tensor, torch.Tensor]:
    back = torch.arange(11)[:, None] - torch.arange(11)
    visible = {"none": back > -99, "causal": back >= 0, "window": (back >= 0) & (back < 3)}[mask]
    scores = 3 * torch.randn(3, 11, 11, generator=torch.Generator().manual_seed(1))
    return torch.softmax(scores.masked_fill(~visible, -torch.inf), dim=-1), visible


@pytest.mark.parametrize("mask", ["none", "causal", "window"])
@pytest.mark.parametrize("rows", [1, 4, 11])
def test_strips_show_what_a_slow_search_over_the_whole_map_finds(mask: str, rows: int) -> None:
    """With the keys left out that a strip does not see."""
    weights, visible = masked_maps(mask)
    found: StrongestPairs | None = None
    for start in range(0, 11, rows):
        seen = visible[start : start + rows]
        shown = seen.any(dim=0).nonzero()
        keys = slice(int(shown[0]), int(shown[-1]) + 1)
        mask_of_strip = None if mask == "none" else seen[None, None, :, keys]
        part = weights[None, :, start : start + rows, keys]
        strip = Strip(part, start, keys.start, 11, 11, mask_of_strip)
        found = found or StrongestPairs(strip)
        found.accumulate_map_rows(strip)
    assert found is not None
    pairs = found.select_strongest_pairs(5)
    expected = slow(weights.numpy(), visible.numpy(), 5)
    for head, places in enumerate(expected):
        assert list(zip(pairs.queries[head].tolist(), pairs.keys[head].tolist(), strict=True)) == places  # fmt: skip
        for rank, (query, key) in enumerate(places):
            assert float(pairs.weights[head, rank]) == float(weights[head, query, key])
            assert float(pairs.even[head, rank]) == pytest.approx(1.0 / int(visible[query].sum()))


def test_a_models_pairs_are_those_of_the_librarys_own_maps() -> None:
    model, inputs = TINY["gpt2"]()
    wanted = PassRequest(pairs=4)
    stacks = find_block_stacks(model, inputs)
    seen = measure_forward_pass(
        model,
        stacks,
        inputs,
        wanted,
        UniformAttentionControl(),
        "",
        lambda share: None,
        strip_memory=1,
    )
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = model(**inputs, output_attentions=True).attentions
    for (_site, pairs), weights in zip(seen.pairs.items(), maps, strict=True):
        visible = np.tril(np.ones(weights.shape[-2:], bool))
        for head, places in enumerate(slow(weights[0].numpy(), visible, 4)):
            assert list(zip(pairs.queries[head].tolist(), pairs.keys[head].tolist(), strict=True)) == places  # fmt: skip


def observed(*maps: torch.Tensor, visible: torch.Tensor | None = None) -> HeadObservations:
    texts = []
    for weights in maps:
        mask = None if visible is None else visible[None, None]
        strip = Strip(weights[None], 0, 0, *weights.shape[-2:], mask)
        found = StrongestPairs(strip)
        found.accumulate_map_rows(strip)
        texts.append(PassResult(heads={SITE: {}}, pairs={SITE: found.select_strongest_pairs(2)}))
    return HeadObservations(texts)


def rows_of(found: HeadObservations, *names: TokenNames) -> list[Row]:
    return list(token_pair_rows(found, names, {SITE: {}}, lambda layer, head: True, 2))


def test_of_several_texts_the_strongest_are_told_with_the_text_they_are_in() -> None:
    weak, strong = torch.full((1, 3, 3), 1 / 3), torch.full((1, 3, 3), 1 / 3)
    weak[0, 2] = torch.tensor([0.6, 0.2, 0.2])
    strong[0, 1] = torch.tensor([0.05, 0.05, 0.9])
    first, second = rows_of(observed(weak, strong), TokenNames("abc"), TokenNames("xyz"))
    assert first.keys == {"rank": 1, "query": 1, "key": 2, "query_token": "y", "key_token": "z", "text": 1, "uniform": pytest.approx(1 / 3), "other_queries": pytest.approx(1 / 3)}  # fmt: skip
    assert (second.keys["query_token"], second.keys["key_token"], second.keys["text"]) == ("c", "a", 0)  # fmt: skip
    assert first.coordinates == {"layer": 2, "head": 0, "rank": 1}


def test_tokens_are_named_only_where_the_map_has_as_many() -> None:
    """A model that puts tokens of its own before the text would be told with the wrong words."""
    (row, _) = rows_of(observed(torch.eye(4)[None]), TokenNames("abc"))
    assert "query_token" not in row.keys
    assert format_token_pair(row, ("query_token", "key_token")) == "0 ← 0 1.00 (0.25)"


def test_windows_have_no_place_in_the_text() -> None:
    strip = Strip(torch.full((2, 1, 3, 3), 1 / 3), 0, 0, 3, 3)
    found = StrongestPairs(strip)
    found.accumulate_map_rows(strip)
    (row,) = rows_of(HeadObservations([PassResult(heads={SITE: {}}, pairs={SITE: found.select_strongest_pairs(2)})]), TokenNames("abc"))  # fmt: skip
    assert (row.value, row.head) == (None, None)
    assert "windows" in (row.note or "")
    assert not row.is_missing


def test_a_decoder_is_told_with_the_tokens_that_it_reads() -> None:
    """T5 reads the text shifted by one, behind its start token 0."""
    model = model_of("T5ForConditionalGeneration")
    ids = torch.tensor([[5, 6, 7]])
    moved = model._shift_right(ids)
    text = ModelInput("text", "text", {}, 3, ("fox", "is", "red"), label_decoder_tokens({"input_ids": ids, "decoder_input_ids": moved}, ("fox", "is", "red")))  # fmt: skip
    names = TokenNames.of_text(text)
    decoder = AttentionSite(
        "decoder.block", 0, "self", "full", "decoder.block.0.layer.0.SelfAttention"
    )
    cross = AttentionSite(
        "decoder.block", 0, "cross", "full", "decoder.block.0.layer.1.EncDecAttention"
    )
    encoder = AttentionSite(
        "encoder.block", 0, "self", "full", "encoder.block.0.layer.0.SelfAttention"
    )
    assert names.names_of_queries_and_keys(encoder, 3, 3) == (
        ("fox", "is", "red"),
        ("fox", "is", "red"),
    )
    assert names.names_of_queries_and_keys(decoder, 3, 3) == (
        ("0", "fox", "is"),
        ("0", "fox", "is"),
    )
    assert names.names_of_queries_and_keys(cross, 3, 3) == (
        ("0", "fox", "is"),
        ("fox", "is", "red"),
    )


def test_at_a_terminal_and_from_saved_maps_the_same_pairs_are_told(tmp_path: Path) -> None:
    saved("BertModel", tmp_path / "model")
    maps, first, second = (str(tmp_path / name) for name in ("m.safetensors", "1.json", "2.json"))
    asked = ("--pairs", "3", "--heads", "1.0", "--metric", "sink")
    model = str(tmp_path / "model")
    assert attn("inspect-model", model, "--token-ids", "4,5,6,7,8", *asked, "--save-maps", maps, "-o", first).code == 0  # fmt: skip
    assert attn("inspect-maps", maps, *asked, "-o", second).code == 0
    told = [
        [row for row in json.loads(Path(path).read_text())["rows"] if row["metric"] == "token_pair"]
        for path in (first, second)
    ]
    assert told[0] == told[1]
    assert [row["rank"] for row in told[0]] == [1, 2, 3]
    assert {row["query_token"] for row in told[0]} <= set("45678")
    outcome = attn("inspect-maps", maps, *asked)
    best = told[0][0]
    words = "{query_token}@{query} ← {key_token}@{key}"
    clear = max(told[0], key=lambda row: row["value"] - max(row["uniform"], row["other_queries"]))
    assert f"'{words.format(**clear)}' in head 1.0" in outcome.out.splitlines()[0]
    assert f"1  {words.format(**best)} 0." in outcome.out


def test_the_first_line_names_no_sink() -> None:
    """Every query rests on token 0, and one looks at another token beside it."""
    weights = torch.zeros(1, 6, 6)
    weights[0, :, 0] = 0.9
    weights[0, torch.arange(6), torch.arange(6)] += 0.1
    weights[0, 4] = torch.tensor([0.2, 0.0, 0.8, 0.0, 0.0, 0.0])
    rows = rows_of(observed(weights), TokenNames("abcdef"))
    assert (rows[0].keys["key"], rows[0].value) == (0, pytest.approx(1.0))
    assert describe_strongest_token_pair(rows) == "clearest pair 'e@4 ← c@2' in head 2.0: 0.8; uniform attention 0.17, other queries 0.02"  # fmt: skip


@pytest.mark.parametrize("count", ["0", "1001"])
def test_a_number_of_pairs_that_is_none_is_refused(count: str, tmp_path: Path) -> None:
    saved("BertModel", tmp_path)
    outcome = attn("inspect-model", str(tmp_path), "--pairs", count)
    assert outcome.code == 2
    assert "--pairs" in outcome.err


@pytest.mark.parametrize("words", [("inspect-weights",), ("attribute", "--token", "1")])
def test_what_has_no_pairs_has_no_such_option(words: tuple[str, ...], tmp_path: Path) -> None:
    saved("BertModel", tmp_path)
    outcome = attn(*words, str(tmp_path), "--pairs", "3")
    assert outcome.code == 2
    assert "no such option: --pairs" in outcome.err


def test_a_decoder_of_several_codes_a_step_has_no_labels() -> None:
    """Such as dia's, whose steps are a code of every channel."""
    import torch

    from attncli.models.inputs.model_input import label_decoder_tokens

    kwargs = {"input_ids": torch.arange(3)[None], "decoder_input_ids": torch.zeros(1, 4, 9).long()}
    assert label_decoder_tokens(kwargs, ["a", "b", "c"]) == ()
    kwargs["decoder_input_ids"] = torch.tensor([[7, 0, 2]])
    assert label_decoder_tokens(kwargs, ["a", "b", "c"]) == ("7", "a", "c")


def test_the_first_line_names_no_pair_where_none_stands_out() -> None:
    """Uniform attention, and a single token; of the last key under a causal mask no other query tells anything."""
    alike = "no pair stands out from uniform attention and from what other queries give its key"
    for maps in (torch.full((2, 6, 6), 1 / 6), torch.ones(1, 1, 1)):
        assert describe_strongest_token_pair(rows_of(observed(maps), TokenNames("abcdef"))) == alike
    own = torch.eye(4)[None]
    rows = rows_of(observed(own, visible=torch.ones(4, 4).tril().bool()), TokenNames("abcd"))
    assert "other_queries" not in rows[0].keys
    assert describe_strongest_token_pair(rows) == "clearest pair 'd@3 ← d@3' in head 2.0: 1; uniform attention 0.25"  # fmt: skip
