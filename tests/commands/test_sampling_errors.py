"""The law of sampled numbers: where another draw gives another value, the row carries how far, and of how many it is.

Every question is asked twice on tiny inputs with draws of its own. Rows of one draw (n = 1) are that draw's numbers; all
others that differ between the two must have a standard deviation (`spread`) or a standard error (`error`).
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attncli as attn
from attncli.analysis.bootstrap_quantile_errors import bootstrap_quantile_errors
from attncli.commands.paths.synthetic.output_shares_by_head import describe_head_with_largest_share
from attncli.commands.paths.synthetic.single_paths import describe_rank_one_residual_decay
from attncli.records import Row

TINY = "random:gpt2?layers=2&width=16&heads=2"
SMALL: dict[str, Any] = {"layers": 2, "heads": 2, "seeds": 3}
TEXTS = (
    ["1,2,3,4,5,6", "7,8,9,1,2,3", "4,4,5,1,9,8"],
    ["9,3,2,2,7,5", "6,1,4,8,8,2", "3,9,9,5,1,6"],
)

QUESTIONS: dict[str, Callable[[int], Any]] = {
    "rank-collapse": lambda s: attn.rank_collapse(**SMALL, tokens=6, seed=s),
    "rank-collapse, sizes": lambda s: attn.rank_collapse(layers=2, heads=2, seeds=3, sweep="tokens=4:8", seed=s),
    "rank-collapse of a model": lambda s: attn.rank_collapse(TINY, token_ids=TEXTS[s % 2]),
    "reproduce circle": lambda s: attn.reproduce.circle(width=4, seeds=3, train_steps=3, recurrence=5, seed=s),
    "paths": lambda s: attn.paths(**SMALL, tokens=6, seed=s),
    "paths by head": lambda s: attn.paths(**SMALL, tokens=6, seed=s, by="head"),
    "paths, sampled": lambda s: attn.paths(**SMALL, tokens=6, seed=s, sample=4),
    "one path": lambda s: attn.paths(**SMALL, tokens=6, seed=s, path=["1,2"]),
    "reproduce memorise": lambda s: attn.reproduce.memorise(layers=2, width=8, train_steps=3, seeds=3, paths_per_sum="2", seed=s),
    "paths of a model": lambda s: attn.paths(TINY, token_ids=TEXTS[s % 2]),
    "paths of a model by head": lambda s: attn.paths(TINY, token_ids=TEXTS[s % 2], by="head"),
    "paths of a model by steps": lambda s: attn.paths(TINY, token_ids=TEXTS[s % 2], by="steps"),
    "paths of a model, sampled": lambda s: attn.paths(TINY, token_ids=TEXTS[0], seed=s, sample=4),
    "sensitivity": lambda s: attn.sensitivity(TINY, token_ids=TEXTS[0][:1], seed=s, directions=4),
    "sensitivity of texts": lambda s: attn.sensitivity(TINY, token_ids=TEXTS[s % 2]),
    "approximate": lambda s: attn.approximate(length=6, seeds=3, seed=s, method=["certificate"]),
    "approximate, lengths": lambda s: attn.approximate(sweep="length=6:8", method=["certificate"], seeds=3, seed=s),
    "approximate, widths": lambda s: attn.approximate(pattern=["permutation"], frontier="2:3", length=6, seeds=2, seed=s, method=["cyclic"]),
    "approximate, scales": lambda s: attn.approximate(pattern=["permutation"], sweep="length=4:32", frontier="2,3", seeds=3, seed=s, method=["certificate:keys=spread"], total_variation=0.999),
    "head-capacity": lambda s: attn.head_capacity(TINY, token_ids=TEXTS[s % 2]),
    "reproduce rank-heads": lambda s: attn.reproduce.rank_heads(dimension=4, ranks="1,4", train_steps=3, seeds=3, seed=s),
    "inspect-model": lambda s: attn.inspect_model(TINY, token_ids=TEXTS[s % 2], metric=["entropy", "sink"]),
}  # fmt: skip


OF_ONE_PATTERN = ("approximate", "approximate, widths")
"""Their numbers are all of the one pattern that is drawn."""


def place(row: Row) -> tuple[Any, ...]:
    return row.metric, tuple(sorted(row.coordinates.items(), key=str))


def without_error(first: Any, second: Any) -> list[Row]:
    """Rows of several draws that another draw moves, and that do not say how far."""
    others = {place(row): row.value for row in second.rows}
    return [
        row
        for row in first.rows
        if row.n > 1 and row.value is not None and row.value != others.get(place(row), row.value)
        if row.spread is None and "error" not in row.keys
    ]


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
def test_what_another_draw_moves_says_how_far(question: str) -> None:
    first, second = (QUESTIONS[question](seed) for seed in (0, 101))
    assert without_error(first, second) == []
    moved = {place(row): row.value for row in first.rows} != {
        place(row): row.value for row in second.rows
    }
    assert moved  # else nothing was drawn and nothing is shown
    assert question in OF_ONE_PATTERN or any(row.n > 1 or "error" in row.keys for row in first.rows)


def test_a_head_is_named_first_only_where_the_errors_allow_it() -> None:
    """Five networks do not tell twelve alike heads apart; rows that are apart are told apart."""
    alike = attn.paths(layers=3, by="head")
    assert alike.headline.startswith("No head stands out: the largest share of the output is ")
    assert "the errors do not tell it from 11 others" in alike.headline
    keys = {"through": "head"}
    rows = [
        Row("head_output_share", value, "1", layer=0, head=head, spread=0.01, n=5, keys=keys)
        for head, value in enumerate((0.1, 0.3, 0.2))
    ]
    assert describe_head_with_largest_share(rows) == "The head with the largest share of the output is head 1 of layer 0: 30.00 ± 0.45 %."  # fmt: skip
    wide = [replace(row, spread=0.2) for row in rows]
    assert describe_head_with_largest_share(wide).startswith("No head stands out: ")


def test_lengths_are_ordered_only_where_the_errors_allow_it() -> None:
    def medians(error: float) -> list[Row]:
        return [
            Row("log10_path_residual", -0.1 * length, "log10", n=9, keys={"length": length, "quantile": 0.5, "error": error})
            for length in range(1, 5)
        ]  # fmt: skip

    assert describe_rank_one_residual_decay(medians(0.01)).startswith(
        "Longer paths are closer to rank 1: "
    )
    assert describe_rank_one_residual_decay(medians(0.3)).startswith(
        "The distance to rank 1 has no clear trend"
    )


def test_one_path_of_each_length_orders_no_lengths() -> None:
    """Nor is its one value a median."""
    report = attn.paths(layers=2, tokens=4, width=4, heads=2, seeds=1, sample=1)
    assert report.headline.startswith(
        "One random path of each length is too few to compare lengths: "
    )
    assert report.views[0].title.endswith("over 1 random path of each length")


def test_errors_of_quantiles_are_those_of_repeated_draws() -> None:
    """The median's, over 2,000 samples of 60 from a normal distribution: σ √(π / 2n) for many."""
    stream = np.random.default_rng(1)
    samples = stream.standard_normal((2000, 60))
    true = float(np.median(samples, axis=1).std())
    told = np.mean(
        [bootstrap_quantile_errors(each.tolist(), (0.5,))[0.5] for each in samples[:200]]
    )
    assert told == pytest.approx(true, rel=0.1)
    assert (
        bootstrap_quantile_errors([1.0], (0.5,))
        == bootstrap_quantile_errors([1.0, float("-inf")], (0.5,))
        == {}
    )
