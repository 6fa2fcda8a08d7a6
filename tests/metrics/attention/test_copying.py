"""What heads copy: against loops over the pairs of tokens, and on a model of which is known what it copies."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hand_built import ROLES, hand_built
from torch import Tensor

import attncli as attn
from attncli.metrics.attention import ATTENTION
from attncli.metrics.attention._metric_accumulator import MetricTotals, measure_maps
from attncli.metrics.attention._row_block_of_maps import MapStripRows
from attncli.models.inputs.synthetic_texts import COPIED, NEEDLES, TEXTS, make_synthetic_texts
from attncli.records import Report

COPYING = [name for name in ATTENTION.names() if ATTENTION.declaration_of_entry(name).text]
IDS = torch.tensor([3, 1, 3, 2, 1, 3, 2, 2, 3, 1, 1, 3, 2, 1, 3, 1, 2, 3, 3, 2])


def visible(kind: str) -> Tensor:
    i, j = torch.arange(len(IDS))[:, None], torch.arange(len(IDS))
    return {"full": j > -1, "causal": j <= i, "window": (j <= i) & (i - j < 7)}[kind] & (i > -1)


def counted(order: int, mask: Tensor) -> list[list[int]]:
    """For each query the keys that the in-context estimator of that order counts, by comparing tuples of tokens."""
    ids = tuple(IDS.tolist())
    found = []
    for i in range(len(ids)):
        context = ids[i - order + 2 : i + 1] if order > 1 else ()
        whole = i - order + 2 >= 0
        keys = [
            j
            for j in range(order - 1, i + 1)
            if whole and ids[j - order + 1 : j] == context and bool(mask[i, j])
        ]
        found.append(keys)
    return found


def expected(name: str, weights: np.ndarray, mask: Tensor) -> float:
    values = []
    order = 2 if name == "retrieval" else int(name[-1])
    for row, keys in zip(weights, counted(order, mask), strict=True):
        if not keys:
            continue
        if name == "retrieval":
            values.append(float(int(row.argmax()) in keys))
        else:
            even = np.zeros(len(row))
            even[keys] = 1 / len(keys)
            values.append(abs(row / row.sum() - even).sum() / 2)
    return float(np.mean(values))


@pytest.mark.parametrize("kind", ["full", "causal", "window"])
@pytest.mark.parametrize("name", COPYING)
def test_copying_is_what_a_loop_over_tokens_says(name: str, kind: str) -> None:
    """In one piece, and in strips whose keys begin later."""
    mask = visible(kind)
    generator = torch.Generator().manual_seed(3)
    logits = 2.0 * torch.randn(2, len(IDS), len(IDS), generator=generator, dtype=torch.float64)
    weights = logits.masked_fill(~mask, -torch.inf).softmax(-1)
    wanted = [expected(name, head.numpy(), mask) for head in weights]
    whole = measure_maps(weights[None], [name], visible=mask[None, None], ids=IDS)[name]
    assert isinstance(whole, Tensor)
    assert whole.tolist() == pytest.approx(wanted, rel=1e-12)
    totals, n = MetricTotals([name]), len(IDS)
    for start, stop in itertools.pairwise([0, 5, 6, 13, n]):
        first = int(mask[start:stop].any(dim=0).nonzero()[0])
        part = weights[None, :, start:stop, first:]
        seen = mask[None, None, start:stop, first:]
        totals.accumulate_map_rows(MapStripRows(part, start, first, n, n, seen, ids=IDS))
    again = totals.compute_metric_values()[name]
    assert isinstance(again, Tensor)
    assert again.tolist() == pytest.approx(wanted, rel=1e-12)


def test_even_attention_is_the_unigram_estimator_and_retrieves_nothing() -> None:
    mask = visible("causal")
    even = mask.double() / mask.sum(dim=-1, keepdim=True)
    found = measure_maps(even[None, None], COPYING, visible=mask[None, None], ids=IDS)
    assert float(found["ngram_1"][0]) == pytest.approx(0.0, abs=1e-12)
    assert float(found["ngram_2"][0]) > 0.3
    assert float(found["retrieval"][0]) == 0.0


def test_a_users_text_is_not_measured_for_copying() -> None:
    found = measure_maps(torch.eye(4)[None, None], COPYING)
    assert set(found.values()) == {"n/a: only texts of tokens that attn makes show this"}


def test_needles_are_pieces_of_what_came_before_once_more() -> None:
    """The short positions of the model leave two tokens for each piece; each text has its own pieces."""
    found = make_synthetic_texts(hand_built(), "needles", 0)
    assert len({tuple(text.ids.tolist()) for text in found}) == len(found) == TEXTS
    for text in found:
        ids = text.ids.tolist()
        assert len(ids) == 32
        hay, copies = ids[: 32 - 2 * NEEDLES], ids[32 - 2 * NEEDLES :]
        assert len(set(hay)) == len(hay)
        starts = [hay.index(copies[2 * each]) for each in range(NEEDLES)]
        assert [copies[2 * e : 2 * e + 2] for e in range(NEEDLES)] == [hay[s : s + 2] for s in starts]  # fmt: skip
        assert sorted(start // 6 for start in starts) == [0, 1, 2, 3]
        assert 0 not in ids
    assert COPIED > 2


def test_markov_texts_follow_their_own_transitions() -> None:
    for text in make_synthetic_texts(hand_built(), "markov", 1):
        assert len(set(text.ids.tolist())) <= 3
        assert len(text.ids) == 32
        assert torch.equal(text.kwargs["input_ids"][0], text.ids)


@pytest.fixture(scope="module")
def built() -> Report:
    ids = ",".join(map(str, range(5, 25)))
    return attn.inspect_model(hand_built(), metric=["copying"], token_ids=[ids])


def test_an_induction_head_is_the_bigram_estimator(built: Report) -> None:
    """Its first key wrongly counts as behind a copy of itself, so it has a loop of its own; the others are far off."""
    texts = [text.ids.tolist() for text in make_synthetic_texts(hand_built(), "markov", 0)]
    far, hits = [], []
    for ids in texts:
        before = [ids[0], *ids[:-1]]  # what the head of the layer below has written
        rows = []
        for i in range(len(ids)):
            looked = [j for j in range(i + 1) if before[j] == ids[i]] or list(range(i + 1))
            right = [j for j in range(1, i + 1) if ids[j - 1] == ids[i]]
            if right:
                rows.append(1.0 - len(right) / len(looked))
        far.append(np.mean(rows))
    for text in make_synthetic_texts(hand_built(), "needles", 0):
        ids = text.ids.tolist()
        copied = ids[24:]
        hits.append(np.mean([token != ids[0] for token in copied]))
    found = {(row.metric, row.layer, row.head): row for row in built.rows}
    induction = (1, ROLES[1].index("induction"))
    assert found["ngram_2", *induction].value == pytest.approx(np.mean(far), abs=1e-6)
    assert found["ngram_2", *induction].spread == pytest.approx(np.std(far, ddof=1), rel=1e-4)
    assert found["retrieval", *induction].value == pytest.approx(np.mean(hits))
    others = [key for key in found if key[1:] != induction]
    assert all((found[key].value or 0.0) == 0.0 for key in others if key[0] == "retrieval")
    assert min(found[key].value or 0.0 for key in others if key[0] == "ngram_2") > 0.5


def test_even_heads_are_the_unigram_estimator(built: Report) -> None:
    even = [(layer, head) for layer, names in enumerate(ROLES) for head, name in enumerate(names) if name == "uniform"]  # fmt: skip
    values = {(r.layer, r.head): r.value for r in built.rows if r.metric == "ngram_1"}
    assert max(values[place] or 0.0 for place in even) < 1e-6
    assert min(values[place] or 0.0 for place in values if place not in even) > 0.3


def test_a_file_of_maps_keeps_what_its_maps_do_not_show(tmp_path: Path) -> None:
    """Maps are those of the user's text; copying was measured on others."""
    file = tmp_path / "maps.safetensors"
    ids = [",".join(map(str, range(5, 25)))]
    run = attn.inspect_model(hand_built(), metric=["retrieval"], token_ids=ids, save_maps=file)
    again = attn.inspect_maps(str(file), metric=["retrieval"])
    assert [row.value for row in again.rows] == [row.value for row in run.rows]
    assert max(row.value or 0.0 for row in again.rows) > 0.9
