"""Findings from numbers that are written down: who is named, beside which null, and in which order."""

from collections.abc import Mapping, Sequence

import pytest

from attncli.analysis.heads.classification.head_and_outlier_findings import build_findings
from attncli.analysis.heads.classification.head_roles import classify_heads
from attncli.records import Row, Scalar

EVEN = {"sink_max": 0.05, "head_contribution": 0.25, "induction": 0.03}


def heads(metric: str, values: Sequence[float], **nulls: Sequence[float]) -> list[Row]:
    """One metric of the heads of layer 0, with uniform attention and other nulls beside."""
    return [
        Row(metric, value, "1", layer=0, head=head, keys=beside(metric, head, nulls))
        for head, value in enumerate(values)
    ]


def beside(metric: str, head: int, nulls: Mapping[str, Sequence[float]]) -> dict[str, Scalar]:
    even = {"uniform": EVEN[metric]} if metric in EVEN else {}
    return {**even, **{null: values[head] for null, values in nulls.items()}}


def states(metric: str, values: Sequence[float], **keys: Scalar) -> list[Row]:
    return [
        Row(metric, value, "1", layer=layer, keys={**keys, **place(metric, value)})
        for layer, value in enumerate(values)
    ]


def place(metric: str, value: float) -> dict[str, Scalar]:
    if metric != "max_activation":
        return {}
    return {"token": 1, "feature": 7, "over_median": 2.0 * value, "random_init": 3.5}


def told(rows: Sequence[Row]) -> dict[str, str]:
    """The findings in their order."""
    found = build_findings(rows, classify_heads(rows), [["<s>", "dog"]])
    return {finding.about: finding.text for finding in found}


def test_what_was_never_measured_is_not_said_to_be_absent() -> None:
    assert told([Row("sink_max", 0.1, "1", layer=0, head=0)]) == {
        "nothing": "no sinks in the 1 head of layer 0"
    }
    assert told([]) == {}


def test_one_text_with_massive_activations_is_enough() -> None:
    """Their mean may be small; the word is that of the text that has them."""
    keys = {"token": 1, "feature": 7, "over_median": 4000.0, "text": 1, "largest": 9000.0}
    row = Row("max_activation", 90.0, "1", layer=2, n=100, keys=keys)
    (found,) = build_findings([row], [], [["<s>", "dog"], ["<s>", "cat"]])
    assert found.text.startswith("after layer 2; largest 9,000 at token 1 ('cat'), feature 7")


def test_massive_activations_have_their_layers_and_their_largest_place() -> None:
    """In layer 1 the largest is 450: no 1000 times the median."""
    found = told(states("max_activation", [3.0, 450.0, 900.0, 5000.0, 600.0, 60.0]))
    assert found["massive activations"] == (
        "after layers 2-4; largest 5,000 at token 1 ('dog'), feature 7, after layer 3: 10,000 × the median; "
        "random weights: 3.500"
    )


def test_a_large_activation_among_large_ones_is_not_massive() -> None:
    assert "massive activations" not in told(states("max_activation", [3.0, 450.0]))


def test_the_stack_that_ends_in_one_direction_is_named() -> None:
    """Not the one that only starts there."""
    gap = "token_cosine_gap"
    rows = states(gap, [0.9, 0.01], stack="encoder") + states(gap, [0.01, 0.9], stack="decoder")
    assert told(rows)["over-smoothing"].startswith(
        "encoder: tokens point one way at the end: 1 - cosine 0.01000 after layer 1, 0.9000 before the first"
    )
    assert "over-smoothing" not in told(states(gap, [0.01, 0.9]))


def test_sinks_are_named_strongest_first_and_told_from_those_elsewhere() -> None:
    """Two sinks of four heads, one of them not on token 0; shuffled, three heads sink."""
    rows = heads("sink_max", [0.1, 0.5, 0.2, 0.8], shuffled=[0.4, 0.5, 0.6, 0.1])
    rows += heads("sink", [0.1, 0.5, 0.2, 0.1])
    assert told(rows)["sinks"] == (
        "2 of 4 heads put at least 30 % of their attention on a single token, 1 of them on token 0: 0.3 (80 %), "
        "0.1 (50 %); uniform attention: 5 %; shuffled text: 3 heads"
    )


def test_idle_heads_write_less_than_a_tenth_of_an_equal_share() -> None:
    rows = heads("head_contribution", [0.02, 0.03, 0.001, 0.949])
    assert told(rows)["idle heads"] == (
        "2 of 4 heads write less than a tenth of an equal share of what their layers write: 0.2 (0.001000), "
        "0.0 (0.02000); equal share: 0.2500"
    )


def test_learned_sinks_have_the_mean_of_the_heads_that_have_one() -> None:
    rows = heads("virtual_sink", [0.2, 0.6, 0.1]) + heads("entropy", [1.0] * 5)
    assert told(rows)["learned sinks"] == (
        "take 30 % of the attention on average over 3 heads, most in 0.1 (60 %); without one: 0"
    )


def test_players_are_named_strongest_first() -> None:
    rows = heads("induction", [0.5, 0.9, 0.6, 0.7])
    assert told(rows)["induction heads"].startswith(
        "4: 0.1 (0.90), 0.3 (0.70), 0.2 (0.60), 0.0 (0.50); uniform"
    )


def test_up_to_eight_heads_are_all_named_and_of_more_three() -> None:
    for count, words in ((8, "0.0 (0.50); uniform"), (9, "0.6 (0.80) …; uniform")):
        rows = heads("induction", [0.5 + 0.05 * head for head in range(count)])
        text = told(rows)["induction heads"]
        assert words in text
        assert text.count("(") == (8 if count == 8 else 3)


def test_the_most_serious_comes_first() -> None:
    rows = heads("induction", [0.5]) + heads("sink_max", [0.8]) + heads("virtual_sink", [0.3])
    rows += states("token_cosine_gap", [0.9, 0.01]) + states("max_activation", [9.0, 5000.0])
    assert list(told(rows)) == [
        "massive activations",
        "over-smoothing",
        "sinks",
        "learned sinks",
        "induction heads",
    ]


ROLE_OF = {
    "previous-token": {"previous_token": (0.6, 0.1)},
    "duplicate": {"duplicate_token": (0.35, 0.05)},
    "sink": {"sink_max": (0.9, 0.7), "distance": (9.0, 10.0)},
    "uniform": {"entropy_normalised": (0.96, 1.0)},
    "local": {"distance": (2.4, 10.0), "offset_share": (0.9, 0.2)},
    "positional": {"distance": (2.6, 10.0), "offset_share": (0.65, 0.2)},
    "mixed": {"sink_max": (0.55, 0.3), "induction": (0.36, 0.2)},
}
"""Numbers just past what the role asks for, and those of uniform attention."""


@pytest.mark.parametrize("role", ROLE_OF)
def test_roles_just_past_their_thresholds(role: str) -> None:
    rows = [
        Row(metric, value, "1", layer=0, head=0, keys={"uniform": even})
        for metric, (value, even) in ROLE_OF[role].items()
    ]
    (head,) = classify_heads(rows)
    assert head.role is not None
    assert head.role.role.name == role


def test_a_mixed_head_comes_nearest_to_the_role_that_lacks_least() -> None:
    """Not to that of the larger number."""
    rows = heads("induction", [0.35]) + heads("self_attention", [0.4])
    (head,) = classify_heads(rows)
    assert head.role is not None
    assert (head.role.evidence, head.role.value) == ("induction", 0.35)
