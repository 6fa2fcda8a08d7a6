"""Every pattern × every method × causal or not: what is printed about a saved fit is what four plain lines find."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from scipy.sparse import csr_array

from attncli.fits import FITS, FitRequest, FittedModule, MethodNotApplicable, measure_fit
from attncli.fits._fit_files import (
    ModuleArrays,
    SavedFit,
    build_fit_metadata,
    collect_tensors_of_fits,
    read_fits,
)
from attncli.fits._width_search import run_fitting_method, try_fit_at_width
from attncli.patterns import PATTERNS, build_pattern

LENGTH = 16
WIDTH = {"jl": 64, "certificate": 64, "convex": 20, "cyclic": 12, "learned": 12, "line": 2}
"""Generous: where most patterns meet the request, so that the check sees good fits and bad ones."""


def target_of(pattern: str, causal: bool) -> csr_array:
    text = pattern if pattern != "random" else "random:k=3,weights=dirichlet"
    return build_pattern(text, LENGTH, np.random.default_rng(5), causal)


def saved(fit: FittedModule, target: csr_array, request: FitRequest, path: Path) -> None:
    stored = ModuleArrays(fit.w_q, fit.w_k, fit.x, fit.dtype, fit.causal)
    one = [SavedFit("p", "m", stored, target)]
    save_file(collect_tensors_of_fits(one), path, build_fit_metadata(one, request))


def four_lines(path: Path, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """The map of a saved file and its target, by anybody."""
    f = load_file(path)
    logits = f["x.0"] @ f["w_q"] @ f["w_k"].T @ f["x.0"].T + (
        np.triu(np.full((LENGTH,) * 2, -np.inf), 1) if causal else 0
    )
    made = np.exp(logits - logits.max(axis=1, keepdims=True))
    made /= made.sum(axis=1, keepdims=True)
    target = np.zeros_like(made)
    target[f["target.0.row"], f["target.0.col"]] = f["target.0.value"]
    return made, target


def worst(made: np.ndarray, target: np.ndarray) -> tuple[float, float, float]:
    """ε2, ε1 and total variation from their definitions, pair by pair."""
    ratio, leak = 1.0, 0.0
    for m, a in zip(made, target, strict=True):
        on, off = np.flatnonzero(a), np.flatnonzero(a == 0)
        quotient = m[on] / a[on]
        ratio = max(ratio, (quotient[:, None] / quotient[None, :]).max())
        if off.size:
            leak = max(leak, (m[off][:, None] / m[on][None, :]).max())
    return ratio - 1.0, leak, 0.5 * np.abs(made - target).sum(axis=1).max()


CASES = [
    (pattern, method, causal)
    for pattern in PATTERNS.names()
    for method in FITS.names()
    for causal in (False, True)
    if not (pattern == "permutation" and causal)
]


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "method", "causal"), CASES)
def test_what_is_printed_is_what_four_lines_find(
    pattern: str, method: str, causal: bool, tmp_path: Path
) -> None:
    target = target_of(pattern, causal)
    request = FitRequest(d=WIDTH[method], causal=causal, effort=1)
    fit = run_fitting_method(method, target, request, 0)
    if isinstance(fit, MethodNotApplicable):
        assert len(fit.reason) > 20
        assert method in ("certificate", "cyclic", "line")
        return
    path = tmp_path / "fit.safetensors"
    saved(fit, target, request, path)
    evidence = measure_fit(fit, target)
    made, wanted = four_lines(path, causal)
    assert np.array_equal(wanted, target.toarray())
    printed = evidence.ratio_error, evidence.off_support_ratio, evidence.total_variation
    np.testing.assert_allclose(worst(made, wanted), printed, rtol=1e-4, atol=1e-4)
    again = read_fits(path)[0][0]
    assert measure_fit(again.module, again.target) == evidence


MEETING = {"convex": 0.9, "learned": 0.9, "cyclic": 0.99}


@pytest.mark.parametrize("method", MEETING)
@pytest.mark.parametrize("causal", [False, True])
def test_most_patterns_are_met(method: str, causal: bool) -> None:
    """The cross product above would be satisfied by bad fits alone; these methods must be good at these widths."""
    met = []
    for pattern in PATTERNS.names():
        if pattern == "permutation" and causal:
            continue
        target = target_of(pattern, causal)
        attempt = try_fit_at_width(
            method, target, FitRequest(d=WIDTH[method], causal=causal), [0, 1]
        )
        if attempt.fit is not None:
            met.append(attempt.met)
    assert len(met) >= 5
    assert np.mean(met) >= MEETING[method]


@pytest.mark.parametrize("method", FITS.names())
def test_same_width_same_weights_whatever_the_pattern(method: str) -> None:
    request = FitRequest(d=40 if method != "cyclic" else 12, effort=1)
    patterns = ("block:12", "block:20") if method == "line" else ("window", "permutation")
    fits = [run_fitting_method(method, target_of(p, False), request, 0) for p in patterns]
    first, second = (fit for fit in fits if isinstance(fit, FittedModule))
    assert (first.w_q == second.w_q).all()
    assert (first.w_k == second.w_k).all()
    assert not (first.x == second.x).all()


@pytest.mark.parametrize("method", FITS.names())
def test_same_seed_same_module(method: str) -> None:
    request = FitRequest(d=16, effort=1)
    pattern = "block:12" if method == "line" else "random"
    fits = [run_fitting_method(method, target_of(pattern, False), request, 3) for _ in range(2)]
    first, second = (fit for fit in fits if isinstance(fit, FittedModule))
    assert (first.x == second.x).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("method", ["certificate", "convex", "learned"])
def test_modules_hold_values_of_their_dtype(method: str, dtype: str) -> None:
    fit = run_fitting_method(
        method, target_of("window", False), FitRequest(d=30, dtype=dtype, effort=1), 0
    )
    assert isinstance(fit, FittedModule)
    assert fit.x.dtype == np.float32
    if dtype == "bfloat16":
        assert not (fit.x.view(np.uint32) & 0xFFFF).any()


def test_padding_changes_no_number() -> None:
    target = target_of("random", False)
    fit = run_fitting_method("learned", target, FitRequest(d=8), 0)
    assert isinstance(fit, FittedModule)
    narrow, wide = measure_fit(fit, target), measure_fit(fit.pad_module_to_width(13), target)
    assert wide.total_variation == pytest.approx(narrow.total_variation, rel=1e-9)
    assert wide.logit_scale == pytest.approx(narrow.logit_scale, rel=1e-12)
