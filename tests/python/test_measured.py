"""Maps of the caller's own."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
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
    report = attn.inspect_maps(maps, metrics=["entropy", "sink"])
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
    found = [attn.inspect_maps(form, metrics="entropy,s1").rows for form in forms]
    assert all(rows == found[0] for rows in found)


def test_a_layer_without_a_map_keeps_its_number() -> None:
    report = attn.inspect_maps([None, drawn(2, 4, 4), None, drawn(1, 2, 4, 4)], metrics="sink")
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
    mine = attn.inspect_maps(maps, metrics="attention")
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
    report = attn.inspect_maps(drawn(2, 3, 3), labels=["the", "dog", "barks"], pairs=1)
    assert "these maps" in report.headline
    (first, _) = [row for row in report.rows if row.metric == "token_pair"]
    assert first.keys["key_token"] == ("the", "dog", "barks")[int(first.keys["key"])]
    with pytest.raises(attn.AttnError, match="`labels` names 2 tokens, and the maps have 3 tokens"):
        attn.inspect_maps(drawn(2, 3, 3), labels=["the", "dog"])
    assert any("these roles come from the saved maps" in warning for warning in report.warnings)


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
        ("maps.npz", "there is no file maps.npz"),
        (7, "must be arrays, not 7"),
        (
            [],
            "`maps` holds no array. transformers' default attention, sdpa, returns none",
        ),
        ([[1.0, 2.0], [3.0]], "rows differ in length"),
        (drawn(3, 3) + 0j, "complex128 values"),
        (drawn(3, 3) * 2, "row 0 of head 0 in the array, read as [query, key], is no attention"),
        (np.full((2, 2), np.nan), "is no attention"),
    ],
)
def test_what_is_no_map_is_refused(maps: Any, said: str) -> None:
    with pytest.raises(attn.AttnError) as refused:
        attn.inspect_maps(maps)
    assert said in str(refused.value)


def silent_beside(others: int) -> Any:
    maps = drawn(1, others + 1, 6, 6)
    maps[0, 0] = 0.0
    return maps


@pytest.mark.parametrize("others", [0, 2])
def test_a_head_that_attends_to_nothing_has_no_role_and_no_numbers(others: int) -> None:
    maps = silent_beside(others)
    report = attn.inspect_maps(maps, metrics="all", pairs=2)
    silent = [row for row in report.rows if row.head == 0]
    assert [row.value for row in silent] == [None] * len(silent)
    assert {row.note for row in silent} == {"n/a: no row of the head holds any weight"}
    assert "role" not in {row.metric for row in silent}
    assert "1 head holds no weight in any row: it has no role and no numbers." in report.warnings
    assert "local" not in report.headline
    assert not any("0.0" in finding.text.split() for finding in report.findings)


def test_a_silent_head_changes_nothing_of_the_others() -> None:
    """Neither their numbers, nor whether a layer has a learned sink."""
    maps = silent_beside(2)
    beside, alone = (
        attn.inspect_maps(maps, metrics="all"),
        attn.inspect_maps(maps[:, 1:], metrics="all"),
    )
    known = {(row.metric, row.head, *row.keys.items()): row.value for row in alone.rows}
    of_logits = {"fast_order_1", "fast_order_2", "linearisability", "logit_spread"}
    compared = 0
    for row in beside.rows:
        if row.head and row.metric not in of_logits:
            other = known[row.metric, row.head - 1, *row.keys.items()]
            # products are rounded by how many heads take part
            assert other == row.value or other == pytest.approx(row.value, rel=1e-12), row
            compared += 1
    assert compared > 40
    assert not any("sum to less than 1" in warning for warning in beside.warnings)
    assert not any(finding.about == "learned sinks" for finding in beside.findings)


MAP = drawn(2, 3, 3)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"metrics": 3}, "`metric` must be a list of texts, not 3."),
        ({"metrics": [3]}, "`metric` must be a list of texts, not [3]."),
        ({"metrics": "states"}, "there are only maps in these maps, and `metric` names"),
        (
            {"metrics": ["sink", "max_activation"]},
            "there are only maps in these maps, and `metric` names",
        ),
        ({"pairs": "2"}, "`pairs` must be a whole number, not '2'."),
        ({"pairs": 1.5}, "`pairs` must be a whole number, not 1.5."),
        ({"pairs": True}, "`pairs` must be a whole number, not True."),
        ({"batch": "0"}, "`batch` must be a whole number, not '0'."),
        ({"labels": [None] * 3}, "`labels` must be a list of texts, not [None, None, None]."),
        ({"labels": ["a"]}, "`labels` names 1 token, and the maps have 3 tokens: give each"),
        ({"progress": 3}, "`progress` must be True or False or a function, not 3."),
        ({"pictures": "x"}, "`pictures` must be True or False, not 'x'."),
    ],
)
def test_a_keyword_of_another_type_is_refused(keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(attn.errors.UsageError) as refused:
        attn.inspect_maps(MAP, **keywords)
    assert str(refused.value).startswith(said)


def test_what_is_not_said_is_the_default() -> None:
    plain = attn.inspect_maps(MAP).rows
    said = attn.inspect_maps(MAP, metrics=None, labels=None, pairs=None, batch=None, pictures=None)
    assert said.rows == plain


def test_labels_may_come_one_by_one_and_as_numbers() -> None:
    told = attn.inspect_maps(MAP, labels=["0", "1", "2"], pairs=1).rows
    assert attn.inspect_maps(MAP, labels=[0, np.int64(1), 2], pairs=1).rows == told
    assert attn.inspect_maps(MAP, labels=(str(place) for place in range(3)), pairs=1).rows == told


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")  # torch's own, of the test's tensor
def test_every_kind_of_array_means_the_same() -> None:
    one = MAP[0]
    forms = [
        scipy.sparse.csr_array(one),
        [scipy.sparse.coo_array(one)],
        torch.tensor(one).to_sparse(),
        torch.tensor(one).to_sparse_csr(),
        torch.tensor(one, requires_grad=True),
        (each for each in [one]),
        {"attentions.0": one},
    ]
    plain = attn.inspect_maps(one, metrics="entropy").rows
    assert all(attn.inspect_maps(form, metrics="entropy").rows == plain for form in forms)


@pytest.mark.parametrize("maps", [None, (None, None), [None], {"attentions.0": None}])
def test_what_a_fast_attention_hands_out_is_told_from_maps(maps: Any) -> None:
    with pytest.raises(attn.errors.UsageError, match="attn_implementation='eager'"):
        attn.inspect_maps(maps)


@pytest.mark.parametrize(
    ("maps", "said"),
    [
        (np.ma.masked_less(np.eye(3), 0.5), "the array has masked entries"),
        (torch.zeros(2, 2, device="meta"), "the array is a meta tensor, which holds no numbers"),
        ([object()], "the array is no array of numbers: it is or holds an object"),
        ([["a", "b"]], "the array holds <U1 values: attention weights are real numbers"),
        (b"maps", "must be arrays, not b'maps'"),
        ((), "or hand the model itself to attn.inspect_model"),
        ((each for each in ()), "or hand the model itself to attn.inspect_model"),
    ],
)
def test_what_is_no_array_is_refused_in_one_sentence(maps: Any, said: str) -> None:
    with pytest.raises(attn.AttnError) as refused:
        attn.inspect_maps(maps)
    assert str(refused.value).startswith("`maps`")
    assert said in str(refused.value)


def test_it_can_be_watched_and_drawn() -> None:
    seen: list[tuple[int, int, str]] = []
    report = attn.inspect_maps(MAP[None], progress=lambda *told: seen.append(told), pictures=True)
    assert seen == [(1, 1, "maps")]
    assert [picture.title for picture in report.pictures] == ["head 0.0", "head 0.1"]
    assert report.command == ("attncli.inspect_maps(<ndarray>, pictures=True)",)
