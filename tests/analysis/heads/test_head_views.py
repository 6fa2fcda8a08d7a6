"""How heads are put in order, and how their nulls are said over a table."""

from collections.abc import Sequence

import pytest

from attncli.analysis.heads.head_selection import HeadRanking, sort_rows_by_head_ranking
from attncli.analysis.heads.metric_selection import choose_metrics
from attncli.analysis.heads.report_tables import build_inspection_views
from attncli.records import Row


def heads(metric: str, values: Sequence[float | None], even: Sequence[float]) -> list[Row]:
    return [
        Row(metric, value, "1", layer=0, head=head, keys={"uniform": null})
        for head, (value, null) in enumerate(zip(values, even, strict=True))
    ]


ROWS = [
    *heads("sink", [0.2, None, 0.9, 0.4], [0.1, 0.3, 0.2, 0.1]),
    *heads("distance", [1.0, 2.0, 3.0, 4.0], [5.0] * 4),
    Row("max_activation", 7.0, "1", layer=0),
]


@pytest.mark.parametrize(
    ("ranking", "order"),
    [
        (HeadRanking("sink"), [2, 3, 0]),
        (HeadRanking("sink", rising=True), [0, 3, 2]),
        (HeadRanking("sink", top=2), [2, 3]),
        (HeadRanking("distance", rising=True, top=1), [0]),
    ],
)
def test_heads_come_in_the_order_of_their_number_and_states_after(
    ranking: HeadRanking, order: list[int]
) -> None:
    """All numbers of a head stay together; a head without the number is left out."""
    found = [row.head for row in sort_rows_by_head_ranking(ROWS, ranking)]
    assert found[-1] is None
    assert list(dict.fromkeys(found[:-1])) == order
    assert len(found) == 2 * len(order) + 1


def test_nulls_are_said_once_where_heads_agree_and_else_from_to() -> None:
    (sink, distance) = build_inspection_views(
        ROWS, choose_metrics(["sink", "distance"]), None, texts=3
    )
    over = ", mean ± standard deviation over 3 texts"
    assert sink.title == f"sink{over}; uniform attention: 0.1000 … 0.3000"
    assert distance.title == f"distance{over}; uniform attention: 5.000"
