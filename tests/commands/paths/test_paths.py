"""Terms by path length: against all paths one by one, against arbitrary precision, and what is said of them."""

import itertools
import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy as np
import pytest

from attncli.commands.count_paths.report import build_path_count_report
from attncli.commands.paths.synthetic import output_by_path_length
from attncli.commands.paths.synthetic.metrics_by_path_length import measure_terms_by_path_length
from attncli.commands.paths.synthetic.output_by_path_length import (
    PathLengthDecomposition,
    decompose_network_output,
    subtract_common_and_residual_parts,
    sum_path_length_terms,
)
from attncli.commands.paths.synthetic.output_shares_by_head import (
    measure_network_output_shares_by_head,
)
from attncli.commands.paths.synthetic.path_length_report import (
    build_path_length_finding,
    measure_paths_of_synthetic_networks,
)
from attncli.commands.paths.synthetic.single_paths import (
    describe_rank_one_residual_decay,
    fix_attention_and_norm_statistics,
    measure_sampled_network_paths,
    propagate_and_measure_path,
)
from attncli.errors import InputError
from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
from attncli.networks.ablation_variants import VARIANTS
from attncli.networks.network_spec import NetworkSpec
from attncli.networks.network_weights import GeneratedNetwork
from attncli.records import Report, Row
from attncli.tolerances import COMPLETENESS

KINDS: list[dict[str, Any]] = [
    {},
    {"norm": "layer"},
    {"norm": "rms", "norm_position": "post"},
    {"norm": "layer", "norm_position": "post", "biases": True},
    {"mask": "causal", "positions": "rope", "biases": True},
    {"attention": "gated", "biases": True, "positions": "relative"},
    {"attention": "sinkhorn"},
]


def decomposition(variant: str, seed: int = 0, **kinds: Any) -> PathLengthDecomposition:
    network = GeneratedNetwork(NetworkSpec(**kinds), seed)
    return decompose_network_output(network, VARIANTS[variant], variant, lambda: None)


@pytest.mark.parametrize("variant", ["SAN", "SAN+skip"])
@pytest.mark.parametrize("kinds", KINDS, ids=str)
def test_terms_add_up_to_the_output_and_to_its_residual(
    kinds: dict[str, Any], variant: str
) -> None:
    found = decomposition(variant, layers=5, tokens=24, width=16, heads=2, **kinds)
    numbers = measure_terms_by_path_length(found, [], variant, tolerance=1e-12)
    assert numbers.completeness < 1e-13
    assert numbers.completeness_of_residual < 1e-9
    assert math.fsum(numbers.by_length["path_output_share"].values()) == pytest.approx(
        1.0, abs=1e-12
    )
    assert math.fsum(numbers.by_length["path_norm_share"].values()) == pytest.approx(1.0, abs=1e-12)


def dense(network: GeneratedNetwork) -> tuple[list[Any], list[Any], Any]:
    """Attention matrices [head] and value maps [head] of every layer of SAN+skip, and its output, in plain numpy."""
    x = network.embeddings()
    attention, maps = [], []
    for index in range(network.spec.layers):
        layer = network.layer_weights(index)
        logits = (
            (x @ layer.w_q) @ (x @ layer.w_k).swapaxes(1, 2) / math.sqrt(network.spec.head_width)
        )
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        attention.append(weights / weights.sum(axis=-1, keepdims=True))
        maps.append(layer.w_v @ layer.w_o)
        x = x + (attention[-1] @ x @ maps[-1]).sum(axis=0)
    return attention, maps, x


def test_enumerating_every_path_gives_the_same_terms() -> None:
    network = GeneratedNetwork(NetworkSpec(layers=3, heads=2, tokens=7, width=6), 1)
    attention, maps, output = dense(network)
    expected = {length: np.zeros((7, 6)) for length in range(4)}
    passed = fix_attention_and_norm_statistics(network, "SAN+skip")
    for path in itertools.product(range(3), repeat=3):
        product, term = np.eye(7), network.embeddings()
        for layer, choice in enumerate(path):
            if choice:
                product = attention[layer][choice - 1] @ product
                term = attention[layer][choice - 1] @ term @ maps[layer][choice - 1]
        expected[sum(map(bool, path))] += term
        single = propagate_and_measure_path(path, passed)
        assert single.norm == pytest.approx(
            math.log10(np.linalg.norm(term) / np.linalg.norm(output)), abs=1e-10
        )
        rest = product - product.mean(axis=0)
        size = [np.sqrt(np.abs(m).sum(0).max() * np.abs(m).sum(1).max()) for m in (rest, product)]
        assert single.residual == pytest.approx(math.log10(size[0] / size[1]), abs=1e-10)
    found = decompose_network_output(network, VARIANTS["SAN+skip"], "SAN+skip", lambda: None)
    for length, term in found.terms.items():
        assert np.abs(term.states.value() - expected[length]).max() < 1e-12


def exact_terms(network: GeneratedNetwork, digits: int) -> list[Any]:
    """Terms of SAN+skip by length, as mpmath matrices."""
    mp = mpmath.MPContext()
    mp.dps = digits
    x = mp.matrix(network.embeddings().tolist())
    terms = [x]
    for index in range(network.spec.layers):
        layer = network.layer_weights(index)
        update = [mp.zeros(x.rows, x.cols) for _ in range(len(terms) + 1)]
        for head in range(network.spec.heads):
            w_q, w_k, w_v, w_o = (mp.matrix(w[head].tolist()) for w in layer[:4])
            logits = (x * w_q) * (x * w_k).T / mp.sqrt(network.spec.head_width)
            p = logits.apply(mp.exp)
            for i in range(p.rows):
                whole = mp.fsum(p[i, :])
                for j in range(p.cols):
                    p[i, j] /= whole
            for length, term in enumerate(terms):
                update[length + 1] += p * term * (w_v * w_o)
        terms = [
            old + new for old, new in zip([*terms, mp.zeros(x.rows, x.cols)], update, strict=True)
        ]
        x = sum(terms[1:], terms[0])
    return terms


def test_residuals_of_long_paths_are_true_far_below_the_float_floor() -> None:
    """Attention close to uniform: every head takes two decades off, so ten of them leave float64 behind."""
    network = GeneratedNetwork(
        NetworkSpec(layers=10, heads=2, tokens=5, width=4, init_scale=0.15), 2
    )
    found = measure_terms_by_path_length(
        decompose_network_output(network, VARIANTS["SAN+skip"], "", lambda: None),
        ["log10_residual_frobenius"],
        "",
        COMPLETENESS.tolerance_for_dtype("float64"),
    )
    ours = found.by_length["log10_residual_frobenius"]
    assert ours[10] < -18
    for length, term in enumerate(exact_terms(network, 80)):
        centred = term.copy()
        for j in range(term.cols):
            mean = sum(term[:, j]) / term.rows
            for i in range(term.rows):
                centred[i, j] -= mean
        sizes = [mpmath.sqrt(sum(v**2 for v in m)) for m in (centred, term)]
        assert ours[length] == pytest.approx(float(mpmath.log10(sizes[0] / sizes[1])), abs=1e-6)


def test_terms_that_do_not_add_up_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = output_by_path_length.propagate_path_terms

    def without_length_two(
        terms: output_by_path_length.Terms, layer: Any
    ) -> output_by_path_length.Terms:
        found = usual(terms, layer)
        return {length: term for length, term in found.items() if length != 2}

    monkeypatch.setattr(output_by_path_length, "propagate_path_terms", without_length_two)
    network = GeneratedNetwork(NetworkSpec(layers=3, tokens=8, width=8), 0)
    with pytest.raises(InputError, match="cannot be trusted"):
        measure_paths_of_synthetic_networks([network], True, [], {})


def test_sums_and_differences_of_split_states() -> None:
    a, b = (
        SplitState.from_states(np.random.default_rng(seed).standard_normal((5, 3)))
        for seed in (0, 1)
    )
    assert np.allclose(
        subtract_common_and_residual_parts(a, b).states.value(), a.states.value() - b.states.value()
    )
    assert np.allclose(
        sum_path_length_terms({0: a, 1: b}).states.value(), a.states.value() + b.states.value()
    )


def networks(**sizes: Any) -> list[GeneratedNetwork]:
    return [GeneratedNetwork(NetworkSpec(**sizes), seed) for seed in range(2)]


def values(report: Report, metric: str, **keys: Any) -> list[float]:
    found = [row for row in report.rows if row.metric == metric]
    found = [row for row in found if all(row.keys.get(name) == keys[name] for name in keys)]
    return [row.value for row in found if row.value is not None]


def test_the_report_says_what_short_paths_carry() -> None:
    found = measure_paths_of_synthetic_networks(
        networks(layers=4, tokens=16, width=16), True, ["stable_rank"], {}
    )
    (count,) = values(found, "path_count", length=2)
    assert count == 6 * 16
    errors = values(found, "reconstruction_error")
    assert errors[0] > errors[1] > errors[2] > errors[3] > errors[4]
    assert errors[4] == values(found, "completeness_error")[0] < 1e-14
    assert found.headline.startswith("Paths of length ≤ ")
    assert "by count they are" in found.headline


def test_without_skips_there_is_one_length() -> None:
    found = measure_paths_of_synthetic_networks(
        networks(layers=3, tokens=8, width=8), False, [], {}
    )
    assert values(found, "path_norm_share") == [1.0]
    assert {row.keys["length"] for row in found.rows if "length" in row.keys} == {3}
    assert found.headline == "Every path has length 3: they carry all of the output."


def test_biases_begin_shorter_paths_where_there_are_no_skips() -> None:
    found = measure_paths_of_synthetic_networks(
        networks(layers=3, tokens=8, width=8, biases=True), False, [], {}
    )
    lengths = [row.keys["length"] for row in found.rows if "length" in row.keys]
    assert lengths == sorted(lengths)
    assert set(lengths) == {0, 1, 2, 3}
    assert values(found, "path_count") == [64.0]


def test_where_the_longest_paths_are_needed_the_headline_says_so() -> None:
    found = measure_paths_of_synthetic_networks(
        networks(layers=2, tokens=8, width=8, init_scale=3.0), True, [], {}
    )
    assert values(found, "path_norm_share_up_to")[1] < 0.9
    assert found.headline.startswith("Paths of length ≤ 1 carry only ")


def test_counts_beyond_float_range_stay_exact_in_the_note() -> None:
    found = build_path_count_report(200, 96, True, {})
    row = next(
        row for row in found.rows if row.metric == "path_count" and row.keys["length"] == 200
    )
    assert row.value is None
    assert row.note is not None
    assert row.note.endswith(f"exactly {96**200}")
    assert not row.is_missing


@pytest.mark.parametrize(
    "kinds", [{}, {"biases": True, "norm": "layer", "norm_position": "post"}], ids=str
)
@pytest.mark.parametrize("skip", [True, False])
def test_doors_of_every_layer_add_up(skip: bool, kinds: dict[str, Any]) -> None:
    found = measure_network_output_shares_by_head(
        networks(layers=3, tokens=8, width=8, **kinds), skip, {}
    )
    for layer in range(3):
        shares = [
            row.value or 0.0
            for row in found.rows
            if row.metric == "head_output_share" and row.layer == layer
        ]
        assert len(shares) == 4 + skip + bool(kinds)
        assert math.fsum(shares) == pytest.approx(1.0, abs=1e-12)


def test_samples_fall_with_length_and_are_the_same_again() -> None:
    nets = networks(layers=5, tokens=16, width=16)
    found = measure_sampled_network_paths(nets, True, 8, {})
    medians = values(found, "log10_path_residual", quantile=0.5)
    assert len(medians) == 5
    assert medians == sorted(medians, reverse=True)
    assert found == measure_sampled_network_paths(nets, True, 8, {})


def test_terms_that_cancel_are_warned_of() -> None:
    """Two terms a thousand times the output, against each other."""
    one = SplitState.from_states(np.random.default_rng(0).standard_normal((5, 3)))
    large = SplitState.from_states(1000.0 * np.random.default_rng(1).standard_normal((5, 3)))
    found = PathLengthDecomposition(
        one,
        {
            0: sum_path_length_terms({0: one, 1: large}),
            1: subtract_common_and_residual_parts(one, sum_path_length_terms({0: one, 1: large})),
        },
    )
    numbers = measure_terms_by_path_length(
        found, [], "", COMPLETENESS.tolerance_for_dtype("float64")
    )
    assert numbers.cancellation > 1000.0
    assert "terms cancel each other" in build_path_length_finding("", [numbers], {0: 1, 1: 1}).text


def medians(values: list[float]) -> list[Row]:
    return [
        Row("log10_path_residual", value, "log10", n=9, keys={"length": length, "quantile": 0.5})
        for length, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize(
    ("values", "begins", "factor"),
    [
        ([-0.5, -1.0, -1.5, -2.0, -2.5], "Longer paths are closer to rank 1: ", ", × 0.32 with every head."),
        ([-0.5, -1.0, -2.5], "Longer paths are closer to rank 1: ", "at length 3."),  # too few for a factor
        ([-0.5, -1.1, -1.2, -1.1, -1.2, -5.0], "Longer paths are closer to rank 1: ", "at length 6."),  # not one factor
        ([-2.5, -2.0, -1.5, -1.0], "Longer paths are farther from rank 1: ", ", × 3.2 with every head."),
        ([-0.5, -1.0, -0.4, -0.9, -0.6], "The distance to rank 1 has no clear trend with the length: ", "at length 5."),
    ],
)  # fmt: skip
def test_how_paths_decay_is_told_from_all_lengths(
    values: list[float], begins: str, factor: str
) -> None:
    text = describe_rank_one_residual_decay(medians(values))
    assert text.startswith(begins)
    assert text.endswith(factor)
