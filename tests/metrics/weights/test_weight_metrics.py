"""Metrics of weights against the D × D products that they never form, and against closed forms."""

import math

import mpmath
import numpy as np
import pytest

from attncli.errors import BelowResolution
from attncli.maths.matrices.low_rank_product import LowRankProduct
from attncli.metrics.weights import SCALE_FREE, WEIGHTS

NAMES = WEIGHTS.names()
DIVIDES = ("stable_rank", "effective_rank", "positive_share")
"""Metrics that a zero product has none of."""
POWERS = {"qk_trace_square": 2, "qk_eigenvalue_variance": 2}
"""How a metric grows with the product, where it is neither with its size nor not at all."""


def drawn(wide: int, thin: int, seed: int = 0) -> LowRankProduct:
    """With a share of the identity in it, so that no trace is near zero."""
    left, right = np.random.default_rng(seed).normal(size=(2, wide, thin))
    return LowRankProduct(left, right + 0.5 * left)


def of(name: str, product: LowRankProduct) -> float:
    return float(WEIGHTS[name](product))


def explicit(name: str, matrix: np.ndarray) -> float:
    """By the definition, on the whole matrix."""
    wide = len(matrix)
    s = np.linalg.svd(matrix, compute_uv=False)
    shares = s[s > 1e-10 * s[0]] / s.sum()
    eigenvalues = np.linalg.eigvals(matrix)
    nonzero = eigenvalues[np.abs(eigenvalues) > 1e-8 * s[0]]
    mean = eigenvalues.mean().real
    return float(
        {
            "trace": np.trace(matrix),
            "trace_square": np.trace(matrix @ matrix),
            "eigenvalue_mean": np.trace(matrix) / wide,
            "eigenvalue_variance": ((eigenvalues - mean) ** 2).mean().real,
            "positive_share": (nonzero.real > 0).mean(),
            "frobenius": np.linalg.norm(matrix),
            "stable_rank": (s**2).sum() / s[0] ** 2,
            "effective_rank": np.exp(-(shares * np.log(shares)).sum()),
        }[name.partition("_")[2]]
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("wide", "thin"), [(40, 6), (40, 1), (12, 12), (8, 20)])
def test_as_on_the_whole_matrix(name: str, wide: int, thin: int) -> None:
    product = drawn(wide, thin)
    expected = explicit(name, product.left @ product.right.T)
    assert of(name, product) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_closed_forms(name: str) -> None:
    """A projection on four of ten directions, times two: eigenvalues and singular values are 2, 2, 2, 2."""
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(10, 4)))[0]
    known = {"trace": 8, "trace_square": 16, "eigenvalue_mean": 0.8, "eigenvalue_variance": 0.96}
    known |= {"positive_share": 1, "frobenius": 4, "stable_rank": 4, "effective_rank": 4}
    assert of(name, LowRankProduct(basis, 2 * basis)) == pytest.approx(
        known[name.partition("_")[2]]
    )


def test_a_rotation_has_a_negative_variance() -> None:
    """Its eigenvalues are imaginary, so their squares are negative."""
    basis = np.eye(6)[:, :2]
    quarter = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert of("qk_eigenvalue_variance", LowRankProduct(basis, basis @ quarter)) == pytest.approx(
        -2 / 6
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_factor_on_the_weights(name: str) -> None:
    """What counts as free of scale is; everything else grows with the product."""
    product = drawn(20, 5)
    power = 0 if WEIGHTS.definition(name).unit in SCALE_FREE else POWERS.get(name, 1)
    larger = of(name, LowRankProduct(3.0 * product.left, product.right))
    assert larger == pytest.approx(3.0**power * of(name, product))


@pytest.mark.parametrize("name", NAMES)
def test_the_inner_basis_does_not_matter(name: str) -> None:
    """W_Q M and W_K M^-T make the same product."""
    product = drawn(20, 5)
    mix = np.random.default_rng(2).normal(size=(5, 5))
    other = LowRankProduct(product.left @ mix, product.right @ np.linalg.inv(mix).T)
    assert of(name, other) == pytest.approx(of(name, product), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_extreme_weights(name: str, scale: float) -> None:
    product = drawn(20, 5)
    found = of(name, LowRankProduct(scale * product.left, product.right / scale))
    assert found == pytest.approx(of(name, product), rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_zero_product(name: str) -> None:
    zero = LowRankProduct(np.zeros((7, 3)), np.ones((7, 3)))
    if name.partition("_")[2] in DIVIDES:
        with pytest.raises(BelowResolution, match="zero"):
            of(name, zero)
    else:
        assert of(name, zero) == 0.0
        assert math.copysign(1.0, of(name, zero)) == 1.0


def test_every_metric_says_what_it_measures() -> None:
    for name in NAMES:
        assert WEIGHTS.declaration_of_entry(name).of == name.partition("_")[0]
        assert WEIGHTS.definition(name).definition


@pytest.mark.slow
@pytest.mark.parametrize(("wide", "thin"), [(12, 6), (10, 10), (6, 12), (4, 20)])
@pytest.mark.parametrize("deficient", [False, True])
def test_eigenvalues_that_are_zero_are_not_counted(wide: int, thin: int, deficient: bool) -> None:
    """In 40 digits; a head may be wider than the stream, or have fewer dimensions than it says."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        left, right = rng.normal(size=(2, wide, thin)).astype(np.float32).astype(float)
        if deficient:
            rank = 1 + seed % (min(wide, thin) - 1)
            left = rng.integers(-3, 4, (wide, rank)) @ rng.integers(-3, 4, (rank, thin)) / 16.0
        with mpmath.workdps(40):
            values = mpmath.eig(mpmath.matrix(left.tolist()) * mpmath.matrix(right.tolist()).T)[0]
            nonzero = [each for each in values if abs(each) > max(map(abs, values)) * 1e-20]
        expected = sum(each.real > 0 for each in nonzero) / len(nonzero)
        product = LowRankProduct(left, right)
        assert len(product.eigenvalues) == len(nonzero)
        assert of("qk_positive_share", product) == pytest.approx(expected)
