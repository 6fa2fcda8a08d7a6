"""Maps of the caller's own."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers

import attncli as attn


def drawn(*shape: int) -> Any:
    logits = np.random.default_rng(0).normal(size=shape)
    weights = np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


def values(report: attn.Answer, metric: str) -> list[float | None]:
    return [row.value for row in report.rows if row.metric == metric]


def test_numbers_are_those_of_a_slow_loop() -> None:
    maps = drawn(2, 3, 7, 7)
    report = attn.measure(maps, metrics=["entropy", "sink"])
    entropy = [-np.mean([row @ np.log(row) for row in head]) for layer in maps for head in layer]
    assert values(report, "entropy") == pytest.approx(entropy, rel=1e-12)
    sink = [head[:, 0].mean() for layer in maps for head in layer]
    assert values(report, "sink") == pytest.approx(sink, rel=1e-12)
    assert [(row.layer, row.head) for row in report.rows if row.metric == "sink"] == [
        (layer, head) for layer in range(2) for head in range(3)
    ]


def test_every_shape_means_the_same() -> None:
    one = drawn(5, 5)
    forms = [one, one[None], one[None, None], [one[None]], (one[None, None],), torch.tensor(one)]
    found = [attn.measure(form, metrics="entropy,s1").rows for form in forms]
    assert all(rows == found[0] for rows in found)


def test_a_layer_without_a_map_keeps_its_number() -> None:
    report = attn.measure([None, drawn(2, 4, 4), None, drawn(1, 2, 4, 4)], metrics="sink")
    assert [row.layer for row in report.rows] == [1, 1, 3, 3]


def test_the_maps_that_a_model_returns() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        n_embd=16, n_layer=2, n_head=2, vocab_size=19, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2Model(config).eval().double()
    model.set_attn_implementation("eager")
    ids = torch.arange(9)[None]
    with torch.no_grad():
        maps = model(input_ids=ids, output_attentions=True).attentions
    mine = attn.measure(maps, metrics="attention")
    theirs = attn.inspect_model(model, token_ids=",".join(map(str, range(9))), metric="attention")
    known = {(row.metric, row.layer, row.head): row.value for row in theirs.rows}
    compared = 0
    for row in mine.rows:
        other = known.get((row.metric, row.layer, row.head))
        if row.value is not None and other is not None:
            assert row.value == pytest.approx(other, rel=1e-9, abs=1e-12), row
            compared += 1
    assert compared > 40


def test_labels_are_the_tokens() -> None:
    report = attn.measure(drawn(2, 3, 3), labels=["the", "dog", "barks"], pairs=1)
    assert "these maps" in report.headline
    (first, _) = [row for row in report.rows if row.metric == "token_pair"]
    assert first.keys["key_token"] == ("the", "dog", "barks")[int(first.keys["key"])]
    with pytest.raises(attn.AttnError, match="there are 2 labels, and the maps have 3 tokens"):
        attn.measure(drawn(2, 3, 3), labels=["the", "dog"])
    assert any("roles are told from these maps alone" in warning for warning in report.warnings)


@pytest.mark.parametrize(
    ("maps", "said"),
    [
        (np.ones(3), "holds no array of two axes or more"),
        (
            np.ones((2,) * 6),
            "the array [2, 2, 2, 2, 2, 2]: which are attention maps cannot be told",
        ),
        (drawn(2, 2, 2, 3, 3), "holds 2 texts: name one of 0 … 1 with `batch`"),
        ([drawn(2, 2, 3, 3)], "0 holds 2 texts"),
        ("maps.npz", "must be arrays, not 'maps.npz'"),
        (7, "must be arrays, not 7"),
        ([], "holds no array of two axes"),
        ([[1.0, 2.0], [3.0]], "rows differ in length"),
        (drawn(3, 3) + 0j, "complex128 numbers"),
        (drawn(3, 3) * 2, "row 0 of head 0 in the array, read as [query, key], is no attention"),
        (np.full((2, 2), np.nan), "is no attention"),
    ],
)
def test_what_is_no_map_is_refused(maps: Any, said: str) -> None:
    with pytest.raises(attn.AttnError) as refused:
        attn.measure(maps)
    assert said in str(refused.value)
