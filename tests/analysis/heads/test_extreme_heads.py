"""Headlines of metrics without roles: the least and the most of each, by loops over the rows of a report."""

import json

import pytest
from commands import attn

from attncli.analysis.heads.report_rows.extreme_heads import describe_extreme_heads
from attncli.records import Row


def row(head: int, value: float | None, metric: str = "sink", **keys: str | float) -> Row:
    return Row(metric, value, "1", layer=1, head=head, keys=keys)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], ""),
        ([row(0, 0.5)], "sink 0.5 in head 1.0"),
        ([row(0, 0.5, uniform=0.1), row(1, None)], "sink 0.5 in head 1.0, uniform attention 0.1"),
        ([row(0, 0.5), row(1, 0.5)], "sink 0.5 in every head"),
        ([row(0, 0.5), row(1, 0.25), row(2, None)], "sink from 0.25 in head 1.1 to 0.5 in head 1.0"),
        (
            [row(0, 0.5, uniform=0.1), row(1, 0.25, stack="decoder", kind="cross", uniform=0.1)],
            "sink from 0.25 in head decoder cross 1.1 to 0.5 in head 1.0, uniform attention 0.1",
        ),
        (
            [row(head, value, metric) for metric in "abc" for head, value in ((0, 1.0), (1, 2.0))],
            "a from 1 in head 1.0 to 2 in head 1.1; b from 1 in head 1.0 to 2 in head 1.1",
        ),
    ],
)  # fmt: skip
def test_the_least_and_the_most(rows: list[Row], said: str) -> None:
    assert describe_extreme_heads(rows) == said


def test_the_first_line_answers_what_was_asked() -> None:
    outcome = attn("inspect-model", "random:gpt2?tiny", "--random-tokens", "9", "--metric", "entropy", "--format", "json")  # fmt: skip
    report = json.loads(outcome.out)
    heads = {f"{row['layer']}.{row['head']}": row["value"] for row in report["rows"]}
    least, most = min(heads, key=heads.__getitem__), max(heads, key=heads.__getitem__)
    assert f"; entropy from {heads[least]:.2g} in head {least} to {heads[most]:.2g} in head {most}" in report["headline"]  # fmt: skip
