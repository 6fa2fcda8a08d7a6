"""Every metric against a closed form or a dense oracle, and the laws all of them obey."""

import math

import mpmath
import numpy as np
import pytest
from scipy.optimize import linprog

from attncli.errors import LimitError
from attncli.maths.common_row_arithmetic.arrays_with_integer_exponent import (
    ScaledArray,
    make_scaled_array,
)
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.maths.matrices.matrix_norms import composite_norm, compute_log10_matrix_norm
from attncli.maths.matrices.nearest_constant_row import find_nearest_constant_row
from attncli.maths.matrices.nearest_row_linear_programme import bound_weighted_matrix_norms_below
from attncli.metrics import METRICS
from attncli.metrics.log10_residual_optimal import find_row_nearest_to_tokens

RNG = np.random.default_rng(4)
STATES = RNG.standard_normal((9, 5)) + 0.5


def dense(name: str, x: np.ndarray) -> float:
    """The metric as its definition says, in plain arithmetic."""
    residual = x - x.mean(axis=0)
    s = np.linalg.svd(x, compute_uv=False)
    if name == "log10_residual":
        return math.log10(composite_norm(residual) / composite_norm(x))
    if name == "log10_residual_norm":
        return math.log10(composite_norm(residual))
    if name == "residual":
        return composite_norm(residual) / composite_norm(x)
    if name == "log10_residual_frobenius":
        return math.log10(np.linalg.norm(residual) / np.linalg.norm(x))
    if name == "log10_residual_spectral":
        return math.log10(np.linalg.norm(residual, 2) / np.linalg.norm(x, 2))
    if name == "log10_token_cosine_gap":
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        cosines = unit @ unit.T
        n = len(x)
        return math.log10(1.0 - (cosines.sum() - n) / (n * (n - 1)))
    if name == "stable_rank":
        return float((s**2).sum() / s[0] ** 2)
    if name == "covariance_stable_rank":
        gram = x @ x.T
        return float((gram**2).sum() / np.linalg.norm(gram, 2) ** 2)
    if name == "participation_ratio":
        return float((s**2).sum() ** 2 / (s**4).sum())
    if name == "effective_rank":
        shares = s / s.sum()
        return float(np.exp(-(shares * np.log(shares)).sum()))
    if name == "effective_rank_90":
        return 1.0 + next(k for k in range(len(s)) if (s[: k + 1] ** 2).sum() >= 0.9 * (s**2).sum())
    if name == "log10_variance":
        return math.log10(sum((v - x.mean()) ** 2 for v in x.ravel()) / x.size)
    lengths = [math.sqrt(sum(v * v for v in row)) for row in x]
    if name == "spike_ratio":
        return max(lengths) / sorted(lengths)[len(lengths) // 2]  # an odd number of tokens
    if name == "spike_features":
        token = x[lengths.index(max(lengths))]
        return sum(v**2 for v in token) ** 2 / sum(v**4 for v in token)
    rows = [row / math.sqrt(row @ row) for row in x]
    if name == "cluster_energy":
        return sum(math.exp(a @ b) for a in rows for b in rows) / (2 * len(rows) ** 2)
    if name == "clusters":
        groups = [{i} for i in range(len(rows))]
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                if np.linalg.norm(a - b) <= 0.1:
                    joined = next(g for g in groups if i in g) | next(g for g in groups if j in g)
                    groups = [g for g in groups if not g & joined] + [joined]
        return float(len(groups))
    raise KeyError(name)


NAMES = [name for name in METRICS.names() if name != "log10_residual_optimal"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("offset", [0.0, 3.0])
def test_metrics_are_what_their_definitions_say(name: str, offset: float) -> None:
    x = STATES + offset
    assert METRICS[name](SplitState.from_states(x)) == pytest.approx(dense(name, x), abs=1e-10)
    assert METRICS[name](SplitState.from_states(x).to_split_form()) == pytest.approx(
        dense(name, x), abs=1e-10
    )


def collapsed(power: int) -> SplitState:
    """A common row and a residual 2^power below it."""
    varying = STATES - STATES.mean(axis=0)
    return SplitState(make_scaled_array(np.ones(5)), ScaledArray(varying / 8.0, power), plain=False)


@pytest.mark.parametrize("name", METRICS.names())
@pytest.mark.parametrize("power", [-3, -3000, -(10**7)])
def test_metrics_are_finite_and_read_only_however_deep(name: str, power: int) -> None:
    state = collapsed(power)
    for part in (state.common.mantissa, state.varying.mantissa):
        part.flags.writeable = False
    assert math.isfinite(METRICS[name](state))


OF_THE_WHOLE = ("log10_variance",)
"""What does not follow the residual, for the common row has it too."""


@pytest.mark.parametrize(
    "name", [n for n in METRICS.names() if n.startswith("log10_") and n not in OF_THE_WHOLE]
)
def test_logarithms_follow_the_residual_below_floats(name: str) -> None:
    """Once R is far below c, a residual 2^1000 smaller is log10 2^1000 smaller; a cosine gap twice that."""
    step = METRICS[name](collapsed(-3000)) - METRICS[name](collapsed(-4000))
    times = 2 if name == "log10_token_cosine_gap" else 1
    assert step == pytest.approx(times * 1000 * math.log10(2.0), rel=1e-12)


@pytest.mark.parametrize("name", METRICS.names())
def test_the_order_of_tokens_does_not_matter(name: str) -> None:
    order = RNG.permutation(len(STATES))
    shuffled = METRICS[name](SplitState.from_states(STATES[order]))
    assert shuffled == pytest.approx(METRICS[name](SplitState.from_states(STATES)), abs=1e-9)


@pytest.mark.parametrize("name", METRICS.names())
def test_scale_matters_to_the_norm_alone(name: str) -> None:
    larger = METRICS[name](SplitState.from_states(4.0 * STATES)) - METRICS[name](
        SplitState.from_states(STATES)
    )
    powers = {"log10_residual_norm": 1, "log10_variance": 2}
    assert larger == pytest.approx(powers.get(name, 0) * math.log10(4.0), abs=1e-9)


@pytest.mark.parametrize("name", METRICS.names())
def test_definitions_have_a_unit_and_a_sentence(name: str) -> None:
    found = METRICS.definition(name)
    assert found.unit
    assert len(found.definition) > 20


def test_ranks_of_equal_tokens_and_of_an_orthonormal_set() -> None:
    for name in ("stable_rank", "participation_ratio", "effective_rank"):
        assert METRICS[name](SplitState.from_states(np.ones((4, 3)))) == pytest.approx(1.0)
        assert METRICS[name](SplitState.from_states(np.eye(6))) == pytest.approx(6.0)


def test_a_token_of_one_large_feature_is_a_spike() -> None:
    """100 times as long as the others, in one of 64 features; tokens alike are none."""
    states = RNG.choice([-1.0, 1.0], (9, 64))
    state = SplitState.from_states(states)
    assert METRICS["spike_ratio"](state) == pytest.approx(1.0)
    assert METRICS["spike_features"](state) == pytest.approx(64.0)
    states[4] = 0.0
    states[4, 7] = -800.0
    assert METRICS["spike_ratio"](SplitState.from_states(states)) == pytest.approx(100.0)
    assert METRICS["spike_features"](SplitState.from_states(states)) == pytest.approx(1.0)


def test_clusters_are_chains_of_near_tokens() -> None:
    """Twenty tokens around a circle, 0.31 apart, are alone; a hundred, 0.063 apart, are one; two far groups are two."""

    def circle(count: int) -> np.ndarray:
        angle = 2 * np.pi * np.arange(count) / count
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    groups = np.repeat(np.eye(3), 4, axis=0) + 0.01 * RNG.standard_normal((12, 3))
    for states, count in ((circle(20), 20), (circle(100), 1), (groups, 3), (np.ones((5, 2)), 1)):
        assert METRICS["clusters"](SplitState.from_states(states)) == count


def test_the_energy_of_one_cluster_and_of_orthogonal_tokens() -> None:
    """e^β / 2β, and (e^β + n - 1) / 2βn."""
    assert METRICS["cluster_energy"](SplitState.from_states(np.ones((7, 3)))) == pytest.approx(
        math.e / 2
    )
    orthogonal = (math.e + 5) / 12
    assert METRICS["cluster_energy"](SplitState.from_states(3.0 * np.eye(6))) == pytest.approx(
        orthogonal
    )


def test_opposite_tokens_have_a_cosine_gap_of_two() -> None:
    assert METRICS["log10_token_cosine_gap"](
        SplitState.from_states(np.array([[1.0, 2.0], [-1.0, -2.0]]))
    ) == (pytest.approx(math.log10(2.0)))


def test_a_cosine_gap_of_rotated_tokens_in_arbitrary_precision() -> None:
    """Two tokens at angle 2^-200: 1 - cos = 2 sin²(angle/2)."""
    state = SplitState(make_scaled_array(np.array([1.0, 0.0])), make_scaled_array(np.array([[0.0, 0.5], [0.0, -0.5]]), -199), plain=False)  # fmt: skip
    with mpmath.workdps(200):
        angle = 2 * mpmath.atan(mpmath.mpf(2) ** -200)
        exact = float(mpmath.log10(2 * mpmath.sin(angle / 2) ** 2))
    assert METRICS["log10_token_cosine_gap"](state) == pytest.approx(exact, rel=1e-12)


def best_by_linear_program(x: np.ndarray) -> float:
    """min over centres of ‖·‖_1 ‖·‖_∞, by a linear program for each weight between the two norms."""
    n, d = x.shape
    best = math.inf
    for weight in np.geomspace(0.2, 5.0, 25):
        # variables: centre [d], u [n d] ≥ |x - centre|, column bound, row bound
        cost = np.concatenate([np.zeros(d + n * d), [weight, 1.0 / weight]])
        eye, tile = np.eye(n * d), np.tile(np.eye(d), (n, 1))
        empty = np.zeros((n * d, 2))
        columns = np.hstack(
            [np.zeros((d, d)), np.tile(np.eye(d), n), -np.ones((d, 1)), np.zeros((d, 1))]
        )
        rows = np.hstack(
            [np.zeros((n, d)), np.kron(np.eye(n), np.ones(d)), np.zeros((n, 1)), -np.ones((n, 1))]
        )
        upper = np.vstack(
            [np.hstack([-tile, -eye, empty]), np.hstack([tile, -eye, empty]), columns, rows]
        )
        right = np.concatenate([-x.ravel(), x.ravel(), np.zeros(d + n)])
        bounds = [(None, None)] * d + [(0, None)] * (n * d + 2)
        found = linprog(cost, upper, right, bounds=bounds, method="highs").x[:d]
        best = min(best, composite_norm(x - found))
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_optimal_centre_is_that_of_a_linear_program(seed: int) -> None:
    x = np.random.default_rng(seed).exponential(size=(7, 4))
    ours = composite_norm(x - find_row_nearest_to_tokens(x))
    assert ours <= (1.0 + 1e-9) * best_by_linear_program(x)
    assert ours < composite_norm(x - x.mean(axis=0))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("power", [0, -5000])
def test_the_optimum_is_found_however_uneven_the_state_is(seed: int, power: int) -> None:
    """Outliers, and a residual that left float range: a common factor does not move the best centre."""
    x = np.random.default_rng(seed).standard_cauchy((9, 5))
    x = x - x.mean(axis=0)
    state = SplitState(make_scaled_array(np.ones(5)), make_scaled_array(x, power), plain=False)
    best = math.log10(best_by_linear_program(x)) + power * math.log10(2.0)
    size = compute_log10_matrix_norm(state.states, composite_norm)
    assert METRICS["log10_residual_optimal"](state) + size <= best + 1e-10
    assert find_nearest_constant_row(x).gap < 1e-9


def test_the_proof_of_an_optimum_does_not_pass_what_is_none() -> None:
    """The bound from any weights is below the norms of every centre."""
    stream = np.random.default_rng(5)
    for _ in range(50):
        x = stream.standard_normal((6, 4))
        columns, rows = stream.exponential(size=4), stream.exponential(size=6)
        centre = stream.standard_normal(4)
        apart = np.abs(x - centre)
        weighed = columns.sum() * apart.sum(axis=0).max() + rows.sum() * apart.sum(axis=1).max()
        assert bound_weighted_matrix_norms_below(x, columns, rows) <= weighed


def test_an_optimum_that_takes_hours_is_refused() -> None:
    with pytest.raises(LimitError, match=r"1,024 tokens of width 768 .* measure fewer tokens"):
        METRICS["log10_residual_optimal"](
            SplitState.from_states(np.arange(1024.0 * 768).reshape(1024, 768))
        )


@pytest.mark.slow
def test_the_mean_is_within_its_bound_of_the_optimum() -> None:
    for seed in range(50):
        x = np.random.default_rng(seed).standard_cauchy((6, 3))
        mean = composite_norm(x - x.mean(axis=0))
        assert mean <= 2.0 * (1.0 - 1.0 / 6.0) * composite_norm(
            x - find_row_nearest_to_tokens(x)
        ) * (1 + 1e-9)
