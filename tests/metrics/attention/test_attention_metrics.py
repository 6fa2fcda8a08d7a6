"""Every metric of attention against closed forms and dense oracles, and the laws all of them obey."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attncli.errors import LimitError
from attncli.metrics.attention import ATTENTION, HEAD_GROUPS, is_metric_of_map_alone
from attncli.metrics.attention import _energy_rank as energy_rank
from attncli.metrics.attention._energy_rank import EnergyRank
from attncli.metrics.attention._head_outputs import HeadOutputs
from attncli.metrics.attention._metric_accumulator import COLLECTED, MetricTotals, measure_maps
from attncli.metrics.attention._row_block_of_maps import MapStripRows

torch.set_num_threads(1)

NAMES = ATTENTION.names()
ON_MAPS = [name for name in NAMES if is_metric_of_map_alone(name)]
KERNELS = ("linearisability", "fast_order_1", "fast_order_2")
N = 64
CAUSAL = torch.ones(N, N).tril().bool()


def uniform(visible: Tensor) -> Tensor:
    return visible / visible.sum(-1, keepdim=True, dtype=torch.float64)


def on_map(weights: Tensor, visible: Tensor | None = None, **how: Any) -> Mapping[str, Any]:
    """All metrics of one head."""
    seen = None if visible is None else visible[None, None]
    return measure_maps(weights[None, None].double(), ON_MAPS, visible=seen, **how)


def scores_of(weights: Tensor, mask: Tensor) -> Tensor:
    """Scores whose softmax these maps are, as a model has them: a mask's number where a key is hidden."""
    return weights.log().masked_fill(~mask, torch.finfo(weights.dtype).min)


def harmonic(n: int) -> float:
    return math.fsum(1.0 / k for k in range(1, n + 1))


def test_uniform_causal_attention() -> None:
    found = on_map(uniform(CAUSAL), CAUSAL, period=32)
    expected = {
        "entropy": 3.2057531,
        "entropy_normalised": 1.0,
        "effective_support": 32.5,
        "participation": 32.5,
        "small_share": 0.0,
        "sink": 0.0741233,
        "sink_max": harmonic(N) / N,
        "distance": (N - 1) / 4,
        "self_attention": harmonic(N) / N,
        "previous_token": (harmonic(N) - 1) / (N - 1),
        "induction": (harmonic(N) - harmonic(32)) / 32,
        "duplicate_token": (harmonic(N) - harmonic(32)) / 32,
        "received_mass_min": 1 / N,
        "s1": 1.597855,
        "s2_over_s1": 1.013719 / 1.597855,
        "attention_stable_rank": 1.858062,
    }
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-6), name


def test_uniform_bidirectional_attention() -> None:
    found = on_map(uniform(torch.ones(N, N)))
    expected = {
        "entropy": math.log(N),
        "entropy_normalised": 1.0,
        "effective_support": N,
        "sink": 1 / N,
        "distance": (N * N - 1) / (3 * N),
        "received_mass_min": 1.0,
        "received_mass_gini": 0.0,
        "received_mass_low": 0.0,
        "offset_share": 1.0,
        "logit_spread": 0.0,
        **dict.fromkeys(KERNELS, 0.0),
        "s1": 1.0,
        "s2_over_s1": 0.0,
        "attention_stable_rank": 1.0,
        "attention_stable_rank_centred": 0.0,
    }
    for name, value in expected.items():
        assert float(found[name]) == pytest.approx(value, rel=1e-6, abs=1e-6), name


def test_a_pure_sink() -> None:
    sink = torch.zeros(N, N)
    sink[:, 0] = 1.0
    found = on_map(sink, CAUSAL)
    assert float(found["sink"]) == float(found["sink_max"]) == 1.0
    assert float(found["entropy"]) == 0.0
    assert float(found["effective_support"]) == 1.0
    assert float(found["received_mass_gini"]) == pytest.approx(1 - 1 / N)
    assert float(found["received_mass_low"]) == pytest.approx(1 - 1 / N)
    assert float(found["s1"]) == pytest.approx(math.sqrt(N))
    assert float(found["distance"]) == pytest.approx((N - 1) / 2)


@pytest.mark.parametrize(
    ("name", "offset"), [("self_attention", 0), ("previous_token", 1), ("induction", 31), ("duplicate_token", 32)]
)  # fmt: skip
def test_heads_of_one_offset(name: str, offset: int) -> None:
    """1 for the head that looks so far behind, next to nothing for the others."""
    query = torch.arange(N)
    weights = torch.zeros(N, N)
    weights[query, (query - offset).clamp(min=0)] = 1.0
    found = on_map(weights, CAUSAL, period=32)
    assert float(found[name]) == 1.0
    others = {"self_attention", "previous_token", "induction", "duplicate_token"} - {name}
    assert all(float(found[other]) <= 1 / 32 for other in others)


def test_a_learned_sink() -> None:
    found = on_map(0.75 * uniform(CAUSAL), CAUSAL)
    assert float(found["virtual_sink"]) == pytest.approx(0.25)
    assert on_map(uniform(CAUSAL), CAUSAL)["virtual_sink"].startswith("n/a: all rows sum to 1")


@pytest.mark.parametrize("name", ["linearisability", "logit_spread"])
def test_logits_do_not_show_what_a_learned_sink_takes(name: str) -> None:
    """The same factor on a whole row is lost in the softmax."""
    weights, mask = some_map("causal")
    taken = torch.linspace(0.2, 0.9, len(weights), dtype=torch.float64)[:, None]
    beside = on_map((1.0 - taken) * weights, mask)[name]
    assert float(beside) == pytest.approx(float(on_map(weights, mask)[name]), rel=1e-10)


def test_pairs_that_the_mask_hides_do_not_count() -> None:
    """A window of 8: no query sees the earlier copy of its token; here every third does not see the one before."""
    weights, mask = some_map("causal")
    i, j = torch.arange(23)[:, None], torch.arange(23)
    mask = mask & (i - j < 8) & ~((i - j == 1) & (i % 3 == 0))
    weights = weights * mask
    found = on_map(weights, mask, period=11)
    assert float(found["previous_token"]) == pytest.approx(
        float(weights[(i - j == 1) & mask].mean())
    )
    assert found["induction"] == found["duplicate_token"] == "n/a: no query sees such a key"


def test_keys_that_no_query_sees_are_not_the_least_attended() -> None:
    weights, mask = some_map("full")
    mask[:, 20:] = False
    weights = weights * mask
    found = on_map(weights, mask)["received_mass_min"]
    assert float(found) == pytest.approx(float(weights.sum(0)[:20].min()))


def test_long_strips_have_the_distance_that_their_definition_says() -> None:
    """Longer than the blocks of rows in which distances are added up."""
    weights, mask = some_map("full", 300)
    assert float(on_map(weights, mask)["distance"]) == pytest.approx(
        dense("distance", weights.numpy(), mask.numpy(), 0), rel=1e-10
    )


@pytest.mark.parametrize(("queries", "keys"), [(30, 47), (47, 30)])
def test_spectra_of_maps_that_are_not_square(queries: int, keys: int) -> None:
    weights = some_map("full", 47)[0][:queries, :keys]
    names = [name for name in ON_MAPS if ATTENTION.declaration_of_entry(name).of == "spectrum"]
    found = measure_maps(weights[None, None], names, same_tokens=False)
    for name in names:
        assert float(found[name]) == pytest.approx(spectral(name, weights.numpy()), rel=1e-6), name


def test_what_is_left_of_nearly_uniform_maps_in_float32_has_its_own_rank() -> None:
    """‖A - 11^T/n‖² is 2e-6 of ‖A‖² here, and no difference of numbers of that size."""
    logits = torch.randn(1, 1, 90, 90, generator=torch.Generator().manual_seed(0))
    weights = (1.5e-3 * logits).softmax(-1)
    found = measure_maps(weights, ["attention_stable_rank_centred"])
    expected = spectral("attention_stable_rank_centred", weights[0, 0].double().numpy())
    assert float(found["attention_stable_rank_centred"]) == pytest.approx(expected, rel=1e-3)


def test_normal_logits_have_the_rank_and_entropy_of_their_variance() -> None:
    """sr → e^{σ²}, entropy → ln n - σ²/2."""
    n, sigma = 1500, 0.7
    generator = torch.Generator().manual_seed(0)
    weights = torch.softmax(sigma * torch.randn(n, n, generator=generator), -1)
    found = measure_maps(weights[None, None], ["attention_stable_rank", "entropy"])
    assert float(found["attention_stable_rank"]) == pytest.approx(math.exp(sigma**2), rel=0.02)
    assert float(found["entropy"]) == pytest.approx(math.log(n) - sigma**2 / 2, rel=1e-3)


# --- the definitions, written out densely in numpy


def dense(name: str, a: np.ndarray, visible: np.ndarray, period: int) -> float:
    n = len(a)
    i, j = np.indices(a.shape)
    seen = visible.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        h = -np.where(a > 0, a * np.log(a), 0.0).sum(axis=1)
    columns, times = a.sum(axis=0), visible.sum(axis=0)

    def pairs(offset: int, first: int) -> float:
        return float(a[(i - j == offset) & visible & (i >= first)].mean())

    if ATTENTION.declaration_of_entry(name).of == "spectrum":
        return spectral(name, a)
    if name == "offset_share":
        even = [a[(i - j == r) & visible] for r in range(1 - n, n)]
        return float(sum(len(d) * d.mean() ** 2 for d in even if len(d)) / (a**2).sum())
    if name in ("logit_spread", *KERNELS):
        spreads, distances = [], []
        for row, mask in zip(a, visible, strict=True):
            x = np.log(row[mask]) - np.log(row[mask]).mean()
            s = x if name == "linearisability" else x / max(1.0, abs(x).max())
            kernel = 1 + s if name == "fast_order_1" else 1 + s + s**2 / 2
            spreads.append(x.std())
            distances.append(abs(row[mask] / row[mask].sum() - kernel / kernel.sum()).sum() / 2)
        return float(np.mean(spreads if name == "logit_spread" else distances))
    many = seen > 1
    half = 2 * times >= times.max()
    ordered = np.sort(columns)
    differences = np.abs(ordered[:, None] - ordered).sum()
    return {
        "entropy": lambda: h.mean(),
        "entropy_normalised": lambda: (h[many] / np.log(seen[many])).mean(),
        "effective_support": lambda: np.exp(h).mean(),
        "participation": lambda: (1 / (a**2).sum(axis=1)).mean(),
        "small_share": lambda: (((a < 1e-3) & visible).sum(axis=1) / seen).mean(),
        "virtual_sink": lambda: (1 - a.sum(axis=1)).mean(),
        "entropy_collapse": lambda: (h < 0.1).mean(),
        "min_entropy": lambda: h[2 * seen >= seen.max()].min(),
        "max_logit": lambda: 700.0 + 40.0 * np.log(a[visible].max()),
        "qk_clip": lambda: min(1.0, 100.0 / (700.0 + 40.0 * np.log(a[visible].max()))),
        "sink": lambda: columns[0] / times[0],
        "rest_share": lambda: np.mean([row[0] + 1.0 - sum(row) for row in a]),
        "largest_weight": lambda: np.mean([max(row) for row in a]),
        "largest_column": lambda: (
            max(sum(x * x for x in a[:, k]) for k in range(n)) / sum(x * x for x in a.ravel())
        ),
        "attention_effective_rank_90": lambda: rank_90(a),
        "sink_max": lambda: (columns / times)[half].max(),
        "received_mass_min": lambda: columns.min(),
        "received_mass_low": lambda: (columns < 0.1).mean(),
        "received_mass_gini": lambda: differences / (2 * n * columns.sum()),
        "memory_length": lambda: next(
            r for r in range(n) if a[abs(i - j) <= r].sum() >= 0.9 * a.sum()
        ),
        "decay": lambda: (
            -np.polyfit(*told_decay([pairs(r, 0) for r in range(1, n // 2 + 1)]), 1)[0]
        ),
        "negative_share": lambda: 0.0,
        "row_size": lambda: a.sum(axis=1).mean(),
        "off_diagonal_rank": lambda: np.linalg.matrix_rank(a[n // 2 :, : n // 2], rtol=1e-4),
        "distance": lambda: (a * abs(i - j)).sum(axis=1).mean(),
        "self_attention": lambda: pairs(0, 0),
        "previous_token": lambda: pairs(1, 0),
        "duplicate_token": lambda: pairs(period, period),
        "induction": lambda: pairs(period - 1, period),
    }[name]()  # type: ignore[no-any-return]


def told_decay(means: list[float]) -> tuple[list[int], list[float]]:
    """Places and logarithms up to the first weight that is as good as nothing."""
    there = next((r for r, mean in enumerate(means) if not mean > 1e-6), len(means))
    return list(range(1, there + 1)), [math.log(mean) for mean in means[:there]]


def rank_90(a: np.ndarray) -> float:
    squares = np.linalg.svd(a, compute_uv=False) ** 2
    return 1.0 + next(k for k in range(len(a)) if squares[: k + 1].sum() >= 0.9 * squares.sum())


def spectral(name: str, a: np.ndarray) -> float:
    even = 1 / a.shape[1] if name.endswith("centred") else 0.0
    s = np.linalg.svd(a - even, compute_uv=False)
    known = {"s1": s[0], "s2_over_s1": s[1] / s[0]}
    return float(known.get(name, (s**2).sum() / s[0] ** 2))


def some_map(kind: str, n: int = 23) -> tuple[Tensor, Tensor]:
    """A random map in float64 and its mask."""
    i, j = np.indices((n, n))
    visible = {
        "full": np.ones((n, n), bool),
        "causal": j <= i,
        "window": (j <= i) & (i - j < 15),
        "both sides": abs(i - j) < 15,
    }[kind]
    generator = torch.Generator().manual_seed(len(kind))
    logits = 2.0 * torch.randn(n, n, generator=generator, dtype=torch.float64)
    mask = torch.from_numpy(visible)
    return torch.softmax(logits.masked_fill(~mask, -math.inf), -1), mask


@pytest.mark.parametrize("kind", ["full", "causal", "window", "both sides"])
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ON_MAPS
        if name != "offset_profile" and not ATTENTION.declaration_of_entry(name).text
    ],
)
def test_metrics_are_what_their_definitions_say(name: str, kind: str) -> None:
    weights, mask = some_map(kind)
    weights = 0.8 * weights if name == "virtual_sink" else weights
    scores = 700.0 + 40.0 * scores_of(weights, mask)
    how = (
        {"scores": scores[None, None]}
        if "scores" in ATTENTION.declaration_of_entry(name).needs
        else {}
    )
    found = on_map(weights, mask, period=11, **how)[name]
    expected = dense(name, weights.numpy(), mask.numpy(), 11)
    assert float(found) == pytest.approx(expected, rel=1e-6 if ATTENTION.declaration_of_entry(name).of == "spectrum" else 1e-10)  # fmt: skip


def test_the_offset_profile_is_the_mean_of_each_diagonal() -> None:
    weights, mask = some_map("window")
    profile = on_map(weights, mask)["offset_profile"][0]
    expected = [float(weights.diagonal(-r).mean()) for r in range(9)]
    assert profile.tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("name", "order"), [("head_contribution", 2), ("head_contribution_l1", 1)])
def test_contributions_are_the_norms_of_what_heads_write(name: str, order: int) -> None:
    generator = torch.Generator().manual_seed(0)
    context = torch.randn(1, 9, 3, 4, generator=generator, dtype=torch.float64)
    projection = torch.randn(3, 4, 7, generator=generator, dtype=torch.float64)
    totals = MetricTotals([name])
    totals.accumulate_map_rows(MapStripRows(some_map("full", 9)[0][None, None].expand(1, 3, 9, 9)))
    totals.measure_head_outputs(HeadOutputs(context, projection))
    written = torch.einsum("bqhv,hvf->bqhf", context, projection).norm(order, dim=-1)[0]
    expected = (written / written.sum(-1, keepdim=True)).median(dim=0).values
    assert torch.allclose(totals.compute_metric_values()[name], expected)


def test_lazy_maps_have_rank_one_and_only_some_of_them_a_single_column() -> None:
    """A sink is one column; uniform attention is rank one without any; a permutation needs 90 % of its columns."""
    sink = torch.zeros(20, 20)
    sink[:, 3] = 1.0
    even, moved = torch.full((20, 20), 1 / 20), torch.eye(20).roll(1, 0)
    expected = {"sink": (1.0, 1.0), "even": (1.0, 1 / 20), "moved": (18.0, 1 / 20)}
    for name, weights in {"sink": sink, "even": even, "moved": moved}.items():
        found = on_map(weights)
        shown = found["attention_effective_rank_90"], found["largest_column"]
        assert tuple(map(float, shown)) == pytest.approx(expected[name]), name


def test_ranks_of_maps_that_are_not_square() -> None:
    weights = some_map("full", 47)[0]
    for part in (weights[:30], weights[:, :30]):
        found = measure_maps(part[None, None], ["attention_effective_rank_90"], same_tokens=False)
        squares = np.linalg.svd(part.numpy(), compute_uv=False) ** 2
        k = 1 + next(i for i in range(30) if squares[: i + 1].sum() >= 0.9 * squares.sum())
        assert float(found["attention_effective_rank_90"]) == k


def test_bounds_decide_small_ranks_and_all_singular_values_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Equal singular values lie on the 90 % themselves, and bounds must not decide what rounding does."""
    n = 400
    place = torch.arange(n)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2, n, n, generator=generator, dtype=torch.float64)
    hidden = place[:, None] < place
    near = -0.02 * (place[:, None] - place).abs()
    rows = torch.linalg.qr(noise[1]).Q
    maps = torch.stack(
        [
            (0.1 * noise[0]).masked_fill(hidden, -math.inf).softmax(-1),
            (noise[0] * 4.0).softmax(-1),
            near.softmax(-1),
            (noise[0, :1] * 3.0).expand(n, -1).softmax(-1),
            rows[:, :6] @ torch.diag(2.0 ** -torch.arange(6.0).double()) @ rows[:6],
            torch.eye(n, dtype=torch.float64).roll(1, 0),
            rows[:, :10] @ rows[:10],
        ]
    )
    dense: list[int] = []
    every = EnergyRank.find_squared_singular_values

    def note(self: EnergyRank, units: list[int]) -> Tensor:
        dense.extend(units)
        return every(self, units)

    monkeypatch.setattr(EnergyRank, "find_squared_singular_values", note)
    found = measure_maps(maps[None], ["attention_effective_rank_90"])
    shown = found["attention_effective_rank_90"].tolist()  # type: ignore[union-attr]
    assert shown[:5] == [rank_90(each.numpy()) for each in maps[:5]]
    assert shown[5:] == [360.0, 9.0]
    assert dense == [1, 5, 6]


def test_windows_are_multiplied_together() -> None:
    """A product goes through all maps of the attention, of which an image has thousands."""
    maps = torch.rand(40, 3, 9, 9, generator=torch.Generator().manual_seed(0)).softmax(-1)
    products: list[int] = []

    def multiply(vectors: Tensor, which: Sequence[int]) -> Tensor:
        products.append(len(which))
        some = maps.flatten(0, 1)[[*which]].double()
        return some.transpose(1, 2) @ (some @ vectors)

    rows = MapStripRows(maps)
    rows.multiply_by_gram = multiply
    found = EnergyRank(rows)
    found.accumulate_map_rows(rows)
    assert found.count_leading_singular_values().tolist() == [[rank_90(each.numpy()) for each in item] for item in maps]  # fmt: skip
    assert products == [120]


def test_ritz_values_that_are_too_small_decide_no_rank() -> None:
    """Five directions hold enough, and those of a tilted basis do not; six do by either, and five then by neither."""
    n, generator = 300, torch.Generator().manual_seed(0)
    squares = 1.0 / torch.arange(1.0, n + 1.0, dtype=torch.float64) ** 2
    noise = torch.randn(2, 1, n, 32, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(torch.eye(n, 32, dtype=torch.float64) + 1e-3 * noise[0]).Q
    products, probed = (squares[:, None] * each for each in (basis, noise[1]))
    ritz = torch.linalg.eigvalsh(basis[0].T @ products[0]).flip(-1)
    both = (squares[:5].sum(), ritz[:5].sum())
    for reached, decides in ((sum(both) / 2, False), (squares[:6].sum() - squares[5] / 2, True)):
        energy = (reached / (0.9 - energy_rank.ROUNDING))[None]
        counts, decided = energy_rank.bound_rank_by_ritz_values(
            basis, products, noise[1], probed, energy
        )
        assert counts.tolist() == [6]
        assert decided.tolist() == [decides]


def test_random_vectors_miss_a_large_direction_less_than_once_in_a_billion_maps() -> None:
    missed = math.erf(energy_rank.MISSED / math.sqrt(2.0)) ** energy_rank.PROBES
    assert energy_rank.ROUNDS * missed < 1e-9


def test_ranks_that_memory_does_not_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attncli.resource_limits.available_memory", lambda: 4 * 23**2 * 8)
    with pytest.raises(LimitError, match=r"the rank of 6 maps over 23 keys .* cut the text"):
        measure_maps(several()[0], ["attention_effective_rank_90"])


# --- laws


def several(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Two texts, three heads."""
    maps, mask = zip(*(some_map("window") for _ in range(1)), strict=True)
    generator = torch.Generator().manual_seed(1)
    noise = torch.rand(2, 3, 23, 23, generator=generator, dtype=torch.float64)
    weights = (maps[0] * noise).to(dtype)
    return weights / weights.sum(-1, keepdim=True), mask[0][None, None]


def in_strips(weights: Tensor, mask: Tensor, size: int, name: str) -> Any:
    """As they come from a model: key columns that a strip cannot see are left out."""
    totals = MetricTotals([name])
    scores = (
        scores_of(weights, mask) if "scores" in ATTENTION.declaration_of_entry(name).needs else None
    )
    while True:
        for start in range(0, weights.shape[2], size):
            part = slice(start, start + size)
            seen = mask[:, :, part].any(dim=2).flatten().nonzero()
            first, last = int(seen[0]), int(seen[-1]) + 1
            totals.accumulate_map_rows(
                MapStripRows(
                    weights[:, :, part, first:last],
                    start,
                    first,
                    *weights.shape[2:],
                    mask[:, :, part, first:last],
                    11,
                    None if scores is None else scores[:, :, part, first:last],
                )
            )
        if not totals.needs_another_map_pass():
            return totals.compute_metric_values()[name]


def close(first: Any, second: Any, tolerance: float) -> bool:
    if isinstance(first, str):
        return bool(first == second)
    return torch.allclose(first, second, rtol=tolerance, atol=tolerance * 1e-3)


@pytest.mark.parametrize("name", ON_MAPS)
@pytest.mark.parametrize("size", [1, 7, 23])
def test_the_size_of_strips_does_not_matter(name: str, size: int) -> None:
    weights, mask = several()
    assert close(in_strips(weights, mask, size, name), in_strips(weights, mask, 23, name), 1e-9)


@pytest.mark.parametrize("name", ON_MAPS)
def test_the_order_of_the_batch_does_not_matter(name: str) -> None:
    weights, mask = several()
    assert close(in_strips(weights.flip(0), mask, 7, name), in_strips(weights, mask, 7, name), 1e-9)


@pytest.mark.parametrize("name", ON_MAPS)
def test_float32_is_close_to_float64(name: str) -> None:
    exact, mask = several()
    rough, _ = several(torch.float32)
    assert close(in_strips(rough, mask, 7, name), in_strips(exact, mask, 7, name), 1e-4)


@pytest.mark.parametrize("name", ON_MAPS)
def test_heads_are_independent(name: str) -> None:
    weights, mask = several()
    both = in_strips(weights, mask, 7, name)
    alone = in_strips(weights[:, 1:2], mask, 7, name)
    if isinstance(both, str):
        assert both == alone
    else:
        assert close(both[1:2], alone, 1e-9)


EXTREME = {
    "one key each": torch.eye(23),
    "a sink": torch.eye(23)[:1].expand(23, 23),
    "denormal": torch.eye(23) * (1 - 1e-40) + 1e-40,
    "uniform": torch.full((23, 23), 1 / 23),
}


@pytest.mark.parametrize("name", ON_MAPS)
@pytest.mark.parametrize("kind", EXTREME)
def test_extreme_maps_have_finite_numbers(name: str, kind: str) -> None:
    found = measure_maps(EXTREME[kind][None, None], [name], period=11)[name]
    assert (
        isinstance(found, str)
        or ATTENTION.declaration_of_entry(name).undefined
        or bool(torch.isfinite(found).all())
    )


def test_numbers_that_are_nan_have_a_reason() -> None:
    assert math.isnan(measure_maps(EXTREME["one key each"][None, None], ["decay"])["decay"])  # type: ignore[arg-type]
    assert "decay could be told" in ATTENTION.declaration_of_entry("decay").undefined


def test_weights_that_fall_with_distance_have_their_rate() -> None:
    """e^-λr over its sum: the same slope in every row."""
    place = torch.arange(200, dtype=torch.float64)
    back = place[:, None] - place
    for rate in (0.02, 0.3, 2.0):
        weights = torch.where(back >= 0, (-rate * back).exp(), 0.0)
        found = measure_maps(weights[None, None], ["decay", "memory_length"])
        assert float(found["decay"]) == pytest.approx(rate, rel=1e-9)
        shares = np.array([float(weights.diagonal(-r).sum()) for r in range(200)]).cumsum()
        assert float(found["memory_length"]) == int((shares < 0.9 * shares[-1]).sum())


def test_a_recurrence_leaves_the_rank_of_its_state() -> None:
    """Over 700 tokens by random columns, over 60 exactly; what has no state comes to the limit."""
    generator = torch.Generator().manual_seed(0)
    for tokens in (60, 700):
        sides = torch.randn(2, tokens, 5, generator=generator, dtype=torch.float64)
        weights = (sides[0] @ sides[1].T).tril()
        given = MapStripRows(weights.abs()[None, None], applied=weights[None, None])
        totals = MetricTotals(["off_diagonal_rank"], linear=True)
        totals.accumulate_map_rows(given)
        assert float(totals.compute_metric_values()["off_diagonal_rank"]) == 5  # type: ignore[arg-type]
        full = measure_maps(
            torch.rand(1, 1, tokens, tokens, generator=generator), ["off_diagonal_rank"]
        )
        assert float(full["off_diagonal_rank"]) == min(tokens // 2, 256)  # type: ignore[arg-type]


def test_signs_are_those_of_what_is_applied() -> None:
    weights = torch.tensor([[1.0, 0.0], [-3.0, 1.0]], dtype=torch.float64)[None, None]
    shares = weights.abs() / weights.abs().sum(-1, keepdim=True)
    totals = MetricTotals(["negative_share", "row_size"], linear=True)
    totals.accumulate_map_rows(MapStripRows(shares, applied=weights))
    assert totals.compute_metric_values() == {
        "negative_share": torch.tensor(0.375),
        "row_size": torch.tensor(2.5),
    }


HIDDEN_SCORES = {"least": torch.finfo(torch.float64).min, "infinite": -math.inf}


@pytest.mark.parametrize("hidden", HIDDEN_SCORES)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0, 1e5])
@pytest.mark.parametrize("taken", [0.0, 0.4])
def test_scores_give_the_entropy_that_logarithms_of_weights_give(
    hidden: str, scale: float, taken: float
) -> None:
    """`taken`: the share of a learned sink, which the scores do not show."""
    generator = torch.Generator().manual_seed(0)
    scores = scale * torch.randn(1, 2, N, N, generator=generator, dtype=torch.float64) + 1e3
    scores = scores.masked_fill(~CAUSAL, HIDDEN_SCORES[hidden])
    weights = scores.softmax(-1) * (1.0 - taken)
    found = MapStripRows(weights, visible=CAUSAL[None, None], scores=scores).entropy
    assert torch.allclose(found, torch.special.entr(weights).sum(-1), rtol=1e-12, atol=1e-13)
    rough = MapStripRows(weights.float(), visible=CAUSAL[None, None], scores=scores.float()).entropy
    if scale <= 1.0:  # larger scores are not the same numbers in float32
        assert torch.allclose(rough.double(), found, rtol=1e-4, atol=1e-4)


def spectrum_of(weights: Tensor) -> MetricTotals:
    totals, rows = MetricTotals(["s1", "s2_over_s1"]), MapStripRows(weights)
    totals.accumulate_map_rows(rows)
    while totals.needs_another_map_pass():
        totals.accumulate_map_rows(rows)
    return totals


def noisy(scale: float, n: int = 400) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    scores = scale * torch.randn(1, 1, n, n, generator=generator, dtype=torch.float64)
    return scores.softmax(-1)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 4.0])
def test_singular_values_are_lower_bounds_and_say_where_they_had_not_settled(scale: float) -> None:
    weights = noisy(scale)
    totals = spectrum_of(weights)
    s1, s2 = torch.linalg.svdvals(weights[0, 0])[:2]
    found = {name: float(value) for name, value in totals.compute_metric_values().items()}
    short = float(totals.find_singular_value_shortfall())  # type: ignore[arg-type]
    low = 1.0 - found["s1"] * found["s2_over_s1"] / float(s2)
    assert -1e-9 <= 1.0 - found["s1"] / float(s1) <= max(short, 1e-3)
    assert -1e-9 <= low <= max(2.0 * short, 1e-3)
    assert (short > 1e-3) == (scale == 0.5)  # the flattest spectrum is the one that takes longest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_second_value_that_is_rounding_counts_as_settled(dtype: torch.dtype) -> None:
    """All rows alike: rank 1, at any length."""
    row = torch.rand(1, 1, 1, 150, generator=torch.Generator().manual_seed(0), dtype=dtype)
    totals = spectrum_of((row / row.sum()).expand(1, 1, 150, 150))
    assert float(totals.find_singular_value_shortfall()) <= 1e-3  # type: ignore[arg-type]
    assert float(totals.compute_metric_values()["s2_over_s1"]) < 1e-3  # type: ignore[arg-type]


def test_one_token_is_enough_or_there_is_a_reason() -> None:
    found = measure_maps(torch.ones(1, 2, 1, 1), ON_MAPS)
    assert float(found["entropy"][0]) == 0.0
    assert found["previous_token"] == "n/a: no query sees such a key"
    assert found["induction"].startswith("n/a: only a text that repeats")


def test_cross_attention_has_no_distance() -> None:
    found = measure_maps(some_map("full")[0][None, None, :5], ON_MAPS, same_tokens=False)
    for name in ("distance", "previous_token", "self_attention", "induction", "offset_share"):
        assert found[name] == "n/a: queries and keys are not the same tokens"
    assert float(found["sink"][0]) > 0


@pytest.mark.parametrize("name", NAMES)
def test_definitions_have_a_unit_and_a_sentence(name: str) -> None:
    found = ATTENTION.definition(name)
    assert found.unit
    assert len(found.definition) > 20
    assert ATTENTION.declaration_of_entry(name).of in (
        "rows",
        "summaries",
        "columns",
        "offsets",
        "spectrum",
        "outputs",
        *COLLECTED,
    )
    assert ATTENTION.declaration_of_entry(name).group in HEAD_GROUPS


@pytest.mark.parametrize("hidden", HIDDEN_SCORES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["logit_spread", "linearisability"])
def test_scores_tell_of_logits_whose_weights_have_vanished(
    name: str, dtype: torch.dtype, hidden: str
) -> None:
    """Against a slow loop over the scores, which say what a float cannot."""
    generator = torch.Generator().manual_seed(0)
    scores = 300.0 * torch.randn(1, 2, 12, 12, generator=generator, dtype=torch.float64).to(dtype)
    mask = torch.ones(12, 12).tril().bool()
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    assert bool((weights[0, 0].tril() == 0).any())
    filled = -math.inf if hidden == "infinite" else torch.finfo(dtype).min
    given = scores.masked_fill(~mask, filled)
    found = measure_maps(weights, [name], visible=mask[None, None], scores=given)[name]
    for head in range(2):
        values = []
        for row in range(12):
            x = scores[0, head, row, : row + 1].double()
            x = x - x.mean()
            kernel = 1 + x + x**2 / 2
            own = weights[0, head, row, : row + 1].double()
            values.append(
                float(x.square().mean().sqrt())
                if name == "logit_spread"
                else float((own - kernel / kernel.sum()).abs().sum() / 2)
            )
        assert float(found[head]) == pytest.approx(np.mean(values), rel=2e-6)


@pytest.mark.parametrize("name", ["logit_spread", "linearisability"])
def test_logits_of_weights_that_are_0_are_not_invented(name: str) -> None:
    """Without scores nothing tells how far below they were; small ones are known as far as their dtype goes."""
    scores = torch.tensor([[0.0, -400.0], [0.0, -1.0]], dtype=torch.float64)
    weights = scores.softmax(-1)[None, None]
    known = measure_maps(weights, [name])[name]
    assert float(known[0]) == pytest.approx(float(measure_maps(weights, [name], scores=scores[None, None])[name]))  # fmt: skip
    assert "have become 0" in str(measure_maps(weights.float(), [name])[name])
    hidden = torch.tensor([[True, False], [True, True]])
    assert float(measure_maps(weights.float(), [name], visible=hidden[None, None])[name][0]) >= 0.0


def test_a_share_is_the_median_of_all_tokens() -> None:
    """Of an even number too: the mean of the two in the middle, not the lower one."""
    context = torch.tensor([[1.0, 2.0, 3.0, 10.0], [1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)
    outputs = HeadOutputs(context.T[None, :, :, None], torch.ones(2, 1, 1, dtype=torch.float64))
    found = ATTENTION["head_contribution"](outputs)
    assert found[0].tolist() == pytest.approx([(2 / 3 + 3 / 4) / 2, (1 / 3 + 1 / 4) / 2])


@pytest.mark.parametrize("name", ["head_contribution", "head_contribution_l1"])
def test_shares_of_layers_that_write_next_to_nothing(name: str) -> None:
    context = torch.full((1, 3, 2, 1), 1e-60, dtype=torch.float64)
    context[0, 1] = 0.0
    outputs = HeadOutputs(context, torch.ones(2, 1, 1, dtype=torch.float64))
    assert ATTENTION[name](outputs)[0].tolist() == pytest.approx([0.5, 0.5])


def test_the_worst_row_is_one_that_could_spread() -> None:
    """The first queries of causal attention see few keys: however they look, they say nothing of a collapse."""
    sharp = torch.cat([torch.eye(N)[: N // 2 - 1], torch.ones(N, N).tril()[N // 2 - 1 :]])
    found = on_map(uniform(sharp.bool()), CAUSAL)
    assert float(found["min_entropy"]) == pytest.approx(math.log(N / 2))
    assert float(found["entropy_collapse"]) == pytest.approx((N / 2 - 1) / N)
    assert float(on_map(uniform(CAUSAL), CAUSAL)["entropy_collapse"]) == pytest.approx(1 / N)


@pytest.mark.parametrize("hidden", HIDDEN_SCORES)
def test_a_masks_numbers_are_no_scores(hidden: str) -> None:
    """Neither where the mask hides a few keys of a query, nor where it hides all of them."""
    scores = torch.full((1, 1, 3, 3), -50.0, dtype=torch.float64)
    scores[0, 0, 0, 2] = 7.0
    mask = torch.tensor([[True, True, False], [True, False, False], [False, False, False]])
    given = scores.masked_fill(~mask, HIDDEN_SCORES[hidden])
    found = measure_maps(uniform(mask).nan_to_num()[None, None], ["max_logit", "qk_clip"], visible=mask[None, None], scores=given)  # fmt: skip
    assert float(found["max_logit"]) == -50.0
    assert float(found["qk_clip"]) == 1.0


def test_scores_that_were_not_seen_are_no_number_that_does_not_apply() -> None:
    """A gate on it must fail, not pass over it."""
    found = measure_maps(uniform(CAUSAL)[None, None], ["max_logit"], visible=CAUSAL[None, None])
    assert found["max_logit"] == "the scores that its softmax was given were not seen"
