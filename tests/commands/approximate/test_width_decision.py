"""`attn approximate --decide`: what is said, what is proved, and the exit code that goes with it."""

import importlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from commands import attn
from scipy.sparse import csr_array, save_npz

from attncli.commands.approximate.fixed_attention_module import smallest_width_bounds
from attncli.fits import FitRequest, measure_fit
from attncli.fits._width_search import find_narrowest_fit
from attncli.fits.line import WidthOneResult, fit_width_one
from attncli.patterns import build_pattern

line = importlib.import_module("attncli.fits.line")
"""The module: the package has the method of that name."""

FAST = ("--seeds", "1", "-q")


def decided(*options: str) -> tuple[int, dict[str, Any], dict[str, float | None]]:
    """Exit code, report, and the numbers of its one pattern."""
    done = attn("approximate", "--decide", *options, *FAST, "--format", "json")
    report = json.loads(done.out)
    return done.code, report, {row["metric"]: row["value"] for row in report["rows"]}


@pytest.mark.slow
def test_yes_and_the_least() -> None:
    code, report, found = decided("--pattern", "strided:4", "--length", "32")
    assert code == 0
    assert (found["enough"], found["d_proved"], found["d_found"]) == (1, 2, 2)
    assert "d = 2 is enough" in report["headline"]
    assert "and is the least" in report["headline"]
    assert report["verdicts"] == []


def test_width_one_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of the decision is the one that the search would find again, and is not looked for twice."""
    target = build_pattern("previous", 24, np.random.default_rng(0), True)
    request = FitRequest(d=1, causal=True)
    again = find_narrowest_fit(target, request, [0], 1)
    calls: list[FitRequest] = []

    def counted(pattern: csr_array, asked: FitRequest) -> WidthOneResult:
        calls.append(asked)
        return fit_width_one(pattern, asked)

    for module in (smallest_width_bounds, line):
        monkeypatch.setattr(module, "fit_width_one", counted)
    found = smallest_width_bounds.bound_smallest_head_width(
        "previous", target, request, 1, 512, [0]
    )
    assert len(calls) == 1
    assert found.attempt is not None
    assert found.attempt.fit is not None
    assert again.fit is not None
    assert (found.attempt.fit.x == again.fit.x).all()
    assert replace(found.attempt, fit=None) == replace(again, fit=None)


def test_no_with_a_proof() -> None:
    """The two rows of the proof, looked at by hand: {0, 1} and {1, 2, 3} cross."""
    code, report, found = decided("--pattern", "window:3", "--length", "16", "--width", "1")
    assert code == 1
    assert (found["enough"], found["d_found"]) == (0, None)
    proof = report["source"]["proofs"]["window:3"]["width_1"]
    (first, second), rows = (
        proof["links"],
        build_pattern("window:3", 16, np.random.default_rng(0)).toarray(),
    )
    assert first["rows"] == second["rows"]
    i, j = first["rows"]
    (x, y), (u, v) = first["keys"], second["keys"]
    assert (first["relation"], second["relation"]) == ("same", "opposite")
    assert rows[i, x] > 0 == rows[i, y]
    assert rows[j, x] > 0 == rows[j, y]
    assert rows[i, u] > 0 == rows[i, v]
    assert rows[j, v] > 0 == rows[j, u]
    assert report["verdicts"][0]["failed"]


@pytest.mark.slow
def test_not_decided_is_said_with_both_sides() -> None:
    code, report, found = decided("--pattern", "window:3", "--length", "16", "--width", "2")
    assert code == 1
    assert (found["enough"], found["d_proved"], found["face_d"]) == (None, 2, 3)
    assert report["verdicts"][0]["stopped"]
    assert "not decided" in report["headline"]
    assert "impossible" not in report["headline"].replace("d = 1 is impossible", "")
    explored = attn("approximate", "--decide", "--pattern", "window:3", "--length", "16", "--width", "2", "--allow-unmet", *FAST)  # fmt: skip
    assert explored.code == 0


def test_least_logits_are_proved_by_numbers_in_the_report(tmp_path: Any) -> None:
    upper = np.triu(np.ones((6, 6)))
    upper /= upper.sum(axis=1, keepdims=True)
    save_npz(tmp_path / "upper.npz", csr_array(upper))
    name = str(tmp_path / "upper.npz")
    code, report, found = decided("--pattern", name, "--total-variation", "0.999")
    assert code == 0
    assert found["d_found"] == 1
    assert found["logits_proved"] == pytest.approx(7506, rel=2e-3)
    proof = report["source"]["proofs"][name]["least_logits_at_width_1"]
    keys: dict[Any, int] = {}
    factor: dict[int, Fraction] = {}
    for step in proof["steps"]:
        i, x, y, weight = step["row"], step["x"], step["y"], int(step["weight"])
        free = math.log(1.2) if None not in (x, y) and upper[i, x] else -math.log(5.0)
        assert step["bound"] >= (proof["budget"] if None in (x, y) else free) - 1e-9
        keys[x] = keys.get(x, 0) + step["sign"] * weight
        keys[y] = keys.get(y, 0) - step["sign"] * weight
        factor[i] = factor.get(i, Fraction(0)) + weight * Fraction(step["bound"])
    assert all(total == 0 for key, total in keys.items() if key is not None)
    assert max(factor.values()) < 0
    tight, _, numbers = decided("--pattern", name, "--total-variation", "0.999", "--logit-budget", "7000", "--width", "1")  # fmt: skip
    assert (tight, numbers["enough"]) == (1, 0)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(
    ("text", "length", "causal"), [("previous", 48, True), ("block:24", 48, False), ("window:1", 32, True)]
)  # fmt: skip
def test_modules_of_width_one_meet_the_request_after_rounding(
    dtype: str, text: str, length: int, causal: bool
) -> None:
    target = build_pattern(text, length, np.random.default_rng(0), causal)
    request = FitRequest(d=1, causal=causal, dtype=dtype)
    found = fit_width_one(target, request)
    assert found.module is not None
    again = measure_fit(found.module, target)
    assert again.meets_fit_request(request)
    assert again.logit_scale >= found.answer.least


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--frontier", "2:4"), "exclude each other"),
        (("--method", "learned"), "--decide tries every method"),
        (("-o", "fit.safetensors"), "goes with a plain run"),
    ],
)
def test_what_does_not_go_with_it(options: tuple[str, ...], says: str) -> None:
    done = attn("approximate", "--decide", "--length", "8", *options)
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1
