"""Heads against the length of the text: closed forms of uniform attention, a head that never disperses, lines by numpy."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from commands import attn as command
from hand_built import hand_built

import attncli as attn
from attncli.errors import UsageError

EVEN = "random:bert?layers=1&heads=2&width=16"


def rows_of(report: Any, metric: str) -> list[Any]:
    return [row for row in report.rows if row.metric == metric]


@pytest.fixture(scope="module")
def even() -> Any:
    return attn.dispersion(EVEN, lengths="8:64", samples=2)


def test_untrained_heads_disperse_as_even_attention_does(even: Any) -> None:
    """1/n and ln n, without a mask; random weights of the usual size are that to three digits."""
    for metric, slope in (("largest_weight", -1.0), ("entropy", 1.0)):
        lines = rows_of(even, f"{metric}_slope")
        assert len(lines) == 2
        for row in lines:
            assert row.keys["uniform"] == pytest.approx(slope, abs=1e-6)
            assert row.value == pytest.approx(slope, abs=0.01)
            assert 0.0 < row.keys["error"] < 0.01
    assert "2 of 2 heads disperse as fast" in even.headline


def test_slopes_and_their_errors_are_those_of_numpy(even: Any) -> None:
    """Of every text by itself, then their mean."""
    lengths = [8, 16, 32, 64]
    for row in rows_of(even, "largest_weight_slope"):
        points = [p for p in rows_of(even, "largest_weight") if p.head == row.head]
        assert [p.keys["tokens"] for p in points] == lengths
        curves = np.log([p.each for p in points]).T
        fits = [np.polyfit(np.log(lengths), curve, 1, cov="unscaled") for curve in curves]
        slopes = [float(fit[0][0]) for fit in fits]
        assert row.value == pytest.approx(np.mean(slopes), rel=1e-9)
        assert row.spread == pytest.approx(np.std(slopes, ddof=1), rel=1e-6)
        squares = [
            float(((curve - np.polyval(fit[0], np.log(lengths))) ** 2).sum()) / 2 * fit[1][0, 0]
            for curve, fit in zip(curves, fits, strict=True)
        ]
        assert row.keys["error"] == pytest.approx(math.sqrt(np.mean(squares)), rel=1e-6)


def test_a_head_that_looks_one_back_stays_sharp_and_an_even_causal_one_does_not() -> None:
    """Roles by construction; even causal attention has H_n / n, its entropy the mean of ln k."""
    report = attn.dispersion(hand_built(), lengths="4:32")
    lines = {(row.metric, row.layer, row.head): row for row in report.rows}
    assert lines["largest_weight_slope", 0, 0].value == pytest.approx(0.0, abs=1e-9)
    assert lines["entropy_slope", 0, 0].value == pytest.approx(0.0, abs=1e-9)
    lengths = [4, 8, 16, 32]
    largest = [math.log(sum(1 / k for k in range(1, n + 1)) / n) for n in lengths]
    entropy = [sum(math.log(k) for k in range(1, n + 1)) / n for n in lengths]
    for metric, curve in (("largest_weight", largest), ("entropy", entropy)):
        row = lines[f"{metric}_slope", 0, 2]  # the built even head
        expected = np.polyfit(np.log(lengths), curve, 1)[0]
        assert row.value == pytest.approx(expected, rel=1e-6)
        assert row.keys["uniform"] == pytest.approx(expected, rel=1e-6)


def test_numbers_at_a_length_are_those_of_a_run_of_that_length(even: Any) -> None:
    alone = attn.inspect_model(EVEN, metric=["entropy"], random_tokens=16, samples=2)
    at_16 = [row for row in rows_of(even, "entropy") if row.keys["tokens"] == 16]
    assert [row.each for row in at_16] == [row.each for row in rows_of(alone, "entropy")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--lengths", "8"), "at least two lengths"),
        (("--lengths", "8:4"), "must go up"),
        (("--lengths", "four:8"), "--lengths four:8"),
        (("--lengths", "4:8", "--tokens", "3"), "no such option: --tokens"),
        (("--lengths", "4:8", "--random-tokens", "9"), "no such option: --random-tokens"),
        (("--lengths", "4:8", "--token-ids", "1,2,3"), "has 3 tokens, fewer than the 4 of --lengths"),
        (("--lengths", "4:8", "--metric", "induction"), "--metric induction is no number of a head on a text of any length"),
        (("--lengths", "4:8", "--metric", "max_activation"), "--metric max_activation is no number"),
        (("--lengths", "4:4096"), "BertModel has positions for 512: end it there"),
        (("--lengths", "4:8", "--token", "0"), "no such option: --token"),
        (("--lengths", "4:8", "--top", "2"), "no such option: --top"),
    ],
)  # fmt: skip
def test_what_has_no_lengths_is_refused(arguments: tuple[str, ...], said: str) -> None:
    done = command("dispersion", EVEN, *arguments)
    assert done.code in (2, 3), done.err
    assert said in done.err
    assert not done.out


def test_at_a_terminal_and_behind_a_gate() -> None:
    done = command("dispersion", EVEN, "--lengths", "8:32", "--format", "json", "-q", "--fail-if", "max(largest_weight_slope) > -0.5")  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["study"] == "inspect-model sweep"
    assert found["input"]["points"] == [8, 16, 32]
    failed = command("dispersion", EVEN, "--lengths", "8:32", "-q", "--fail-if", "entropy_slope > 0.5")  # fmt: skip
    assert failed.code == 1


def test_what_has_no_logarithm_has_no_exponent() -> None:
    report = attn.dispersion(EVEN, lengths="8:16", metric=["small_share"])
    notes = {row.note for row in rows_of(report, "small_share_slope")}
    assert notes == {"n/a: an exponent is of positive numbers"}


def test_a_live_module_is_left_as_it_was() -> None:
    model = hand_built()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attn.dispersion(model, lengths="4:8")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_images_have_no_length() -> None:
    with pytest.raises(UsageError, match="tokens"):
        attn.dispersion("random:vit?layers=1&width=16&heads=2", lengths="4:8")
