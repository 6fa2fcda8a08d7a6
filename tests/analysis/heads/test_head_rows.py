"""From what forward passes have shown to rows: means over texts, nulls of the same head, true numbers of heads."""

from collections.abc import Sequence

import pytest
import torch

from attncli.analysis.heads.forward_passes.head_observer import PassResult
from attncli.analysis.heads.report_rows.head_rows import (
    HeadObservations,
    build_head_rows,
    build_state_rows,
    warn_unconverged_spectra,
)
from attncli.capture import AttentionSite
from attncli.metrics.activations._activation_state import ActivationPeak
from attncli.records import Row

SITE = AttentionSite("h", 2, "self", "full", "h.2.attn")


def seen(
    metric: str, values: Sequence[float], even: float = 0.0, short: Sequence[float] = ()
) -> PassResult:
    """Of one attention."""
    return PassResult(
        heads={SITE: {metric: torch.tensor(values, dtype=torch.float64)}},
        nulls={SITE: {metric: torch.tensor([even], dtype=torch.float64)}},
        short={SITE: torch.tensor(short, dtype=torch.float64)} if short else {},
    )


def rows_of(
    metric: str, observed: HeadObservations, heads: Sequence[int], **nulls: HeadObservations
) -> list[Row]:
    return list(
        build_head_rows([metric], observed, nulls, {SITE: {}}, lambda layer, head: head in heads)
    )


def test_numbers_and_their_nulls_are_means_over_the_texts() -> None:
    own = HeadObservations([seen("entropy", [1, 2], even=2), seen("entropy", [3, 6], even=4)])
    random = HeadObservations([seen("entropy", [5, 6]), seen("entropy", [7, 10])])
    first, second = rows_of("entropy", own, [0, 1], random_init=random)
    assert (first.value, first.keys) == (2.0, {"uniform": 3.0, "random_init": 6.0})
    assert (second.value, second.keys) == (4.0, {"uniform": 3.0, "random_init": 8.0})
    assert second.spread == pytest.approx(8.0**0.5)


def test_heads_keep_their_true_numbers() -> None:
    """Heads 3 and 5 alone were saved, and head 5 is asked for."""
    own = HeadObservations([seen("entropy", [1, 2])], numbers={SITE: (3, 5)})
    (row,) = rows_of("entropy", own, [5, 1])
    assert (row.layer, row.head, row.value) == (2, 5, 2.0)


def test_the_head_and_the_text_that_had_not_settled_are_told() -> None:
    texts = [seen("s1", [1, 2], short=[0.0, 0.25]), seen("s1", [1, 2], short=[5e-4, 0.0])]
    settled, moving = rows_of("s1", HeadObservations(texts, numbers={SITE: (3, 5)}), [3, 5])
    assert settled.note is None
    assert moving.note == "not settled after 6 rounds: s1 or s2 may be 25.0% too small"
    (warning,) = warn_unconverged_spectra(texts)
    assert warning.startswith("singular values of 1 of 4 maps had not settled")


def state(value: float, token: int = 0, over_median: float | None = None) -> PassResult:
    peak = ActivationPeak(token, 7, over_median)
    return PassResult(states={("h", 1): {"max_activation": value}}, peaks={("h", 1): peak})


def test_states_have_the_mean_of_the_texts_and_the_place_of_the_largest() -> None:
    own = HeadObservations([state(100.0, 1), state(300.0, 4, 2000.0)])
    null = HeadObservations([state(3.0), state(5.0)])
    (row,) = build_state_rows({"max_activation": "1"}, own, {"shuffled": null})
    assert (row.layer, row.head, row.value) == (1, None, 200.0)
    place = {"token": 4, "feature": 7, "over_median": 2000.0, "text": 1, "largest": 300.0}
    assert row.keys == {**place, "shuffled": 4.0}
    assert row.coordinates == {"layer": 1}  # results of a row do not tell it from others
