"""Findings on weights from numbers that are written down: which heads are named, in which order, beside what chance gives."""

from collections.abc import Sequence

from attncli.commands.inspect_weights.head_weight_findings import build_head_weight_findings
from attncli.head_weights.attention_kind_counts import count_attention_kinds
from attncli.records import Row


def heads(metric: str, values: Sequence[float]) -> list[Row]:
    return [Row(metric, value, "1", layer=0, head=head) for head, value in enumerate(values)]


def told(rows: Sequence[Row], **null: float) -> list[str]:
    """What is said of the two products."""
    nulls = [Row(metric, value, "1") for metric, value in null.items()]
    found = build_head_weight_findings(rows, nulls, count_attention_kinds({}, ()))
    return [finding.text for finding in found if finding.about != "census"]


def test_one_direction_is_more_than_half_below_a_stable_rank_of_two() -> None:
    """The narrowest first; and nothing to say where random weights of such a width have no more."""
    rows = heads("ov_stable_rank", [1.9, 2.1, 1.2, 9.0])
    assert told(rows, ov_stable_rank=15.0) == [
        "one direction is more than half of what they write in 2 heads (0.2, 0.0): stable rank from 1.200 "
        "(random weights: 15.00)"
    ]
    assert told(rows, ov_stable_rank=3.9) == []


def test_heads_that_like_and_copy_are_those_above_a_half() -> None:
    rows = heads("qk_positive_share", [0.6, 0.5, 0.9]) + heads("ov_positive_share", [0.1, 0.2, 0.8])
    assert told(rows, qk_positive_share=0.5, ov_positive_share=0.5) == [
        "tokens prefer keys like themselves in more than half of the directions in 2 of 3 heads "
        "(median share 0.6000, random weights: 0.5000)",
        "heads copy what they read in more than half of the directions in 1 of 3 heads "
        "(median share 0.2000, random weights: 0.5000)",
    ]


def test_loud_heads_have_ten_times_the_median_norm() -> None:
    assert told(heads("qk_frobenius", [1.0, 9.9, 1.0, 30.0, 1.0, 11.0, 1.0])) == [
        "norm up to 30.00 times the median of 1.000, in 2 heads (0.3, 0.5)"
    ]
