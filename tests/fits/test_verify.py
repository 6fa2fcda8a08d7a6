"""The verification against slow loops, torch's own bfloat16, and modules that are wrong on purpose."""

import numpy as np
import pytest

from attncli.fits import FitRequest, measure_fit
from attncli.fits import _verify_fit as module_under_test
from attncli.fits._fit_request_and_module import FittedModule, make_fitted_module
from attncli.maths.dtype_rounding import round_to_dtype
from attncli.patterns import build_pattern


def random_module(length: int, d: int, size: float, dtype: str, causal: bool) -> FittedModule:
    queries, keys = np.random.default_rng(1).normal(size=(2, length, d)) * size
    return make_fitted_module(queries, keys, dtype, causal)


def slow(fit: FittedModule, target: np.ndarray) -> tuple[float, float, float, float]:
    """Definitions, entry by entry, in float64 from the rounded x."""
    x = fit.x.astype(np.float64)
    length, ratio, leak, variation, scale = len(x), 1.0, 0.0, 0.0, 0.0
    for i in range(length):
        seen = range(i + 1) if fit.causal else range(length)
        logits = {j: float(x[i, : fit.d] @ x[j, fit.d :]) for j in seen}
        total = sum(np.exp(value) for value in logits.values())
        row = {j: np.exp(value) / total for j, value in logits.items()}
        scale = max(scale, *(abs(value) for value in logits.values()))
        variation = max(
            variation, 0.5 * sum(abs(row.get(j, 0.0) - target[i, j]) for j in range(length))
        )
        for j in seen:
            for other in seen:
                if target[i, other] and target[i, j]:
                    ratio = max(ratio, row[j] / row[other] / (target[i, j] / target[i, other]))
                elif target[i, other]:
                    leak = max(leak, row[j] / row[other])
    return ratio - 1.0, leak, variation, scale


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "close"), [("float64", 1e-12), ("float32", 1e-5)])
@pytest.mark.parametrize("block", [1, 40, 1 << 22])
def test_against_a_slow_loop(
    causal: bool, dtype: str, close: float, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module_under_test, "BLOCK", block)
    target = build_pattern("random:k=3,weights=dirichlet", 19, np.random.default_rng(0), causal)
    fit = random_module(19, 5, 0.8, dtype, causal)
    found = measure_fit(fit, target)
    four = found.ratio_error, found.off_support_ratio, found.total_variation, found.logit_scale
    np.testing.assert_allclose(four, slow(fit, target.toarray()), rtol=close)


def test_bfloat16_rounds_like_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    values = rng.normal(size=20_000) * 10.0 ** rng.integers(-30, 30, size=20_000)
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8, -(1 + 2**-8), 0.0, -0.0, np.inf, 3.4e38, np.nan])
    values = np.concatenate([values, ties]).astype(np.float32)
    theirs = torch.from_numpy(values).to(torch.bfloat16).to(torch.float32).numpy()
    np.testing.assert_array_equal(round_to_dtype(values, "bfloat16"), theirs)


def test_bfloat16_map_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    target = build_pattern("random:k=2", 32, np.random.default_rng(0))
    fit = random_module(32, 8, 1.5, "bfloat16", False)
    x = torch.from_numpy(fit.x).to(torch.bfloat16)
    w_q, w_k = (torch.from_numpy(part).to(torch.bfloat16) for part in (fit.w_q, fit.w_k))
    logits = (x @ w_q) @ (x @ w_k).T
    made = torch.softmax(logits.float(), dim=1).numpy()
    variation = 0.5 * np.abs(made - target.toarray()).sum(axis=1)
    found = measure_fit(fit, target)
    assert found.logit_scale == float(logits.float().abs().max())
    assert found.total_variation == pytest.approx(float(variation.max()), rel=1e-5)
    assert found.total_variation_mean == pytest.approx(float(variation.mean()), rel=1e-5)


def test_overflow_never_passes() -> None:
    target = build_pattern("window", 8, np.random.default_rng(0))
    found = measure_fit(random_module(8, 4, 1e30, "float32", False), target)
    assert np.isnan(found.total_variation)
    assert not found.meets_fit_request(
        FitRequest(d=4, ratio_error=1e9, off_support=1e9, total_variation=1e9)
    )


@pytest.mark.parametrize("limit", ["ratio_error", "off_support", "total_variation", "logit_budget"])
def test_every_limit_is_looked_at(limit: str) -> None:
    target = build_pattern("random:k=3,weights=dirichlet", 12, np.random.default_rng(0))
    found = measure_fit(random_module(12, 3, 1.0, "float64", False), target)
    loose = {"ratio_error": 1e9, "off_support": 1e9, "total_variation": 2.0, "logit_budget": 1e9}
    assert found.meets_fit_request(FitRequest(d=3, **loose))
    assert not found.meets_fit_request(FitRequest(d=3, **(loose | {limit: 1e-6})))


def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int, str]] = []
    target = build_pattern("window", 50, np.random.default_rng(0))
    measure_fit(random_module(50, 2, 1.0, "float64", False), target, lambda *now: seen.append(now))
    assert seen[-1] == (50, 50, "rows")
