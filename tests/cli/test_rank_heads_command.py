"""`attn reproduce rank-heads` at a terminal: what is said, what is refused, and gates."""

import json

import pytest
from commands import attn

QUICK = ("reproduce", "rank-heads", "--dimension", "4", "--ranks", "1,4", "--train-steps", "5", "--seeds", "1", "-q")  # fmt: skip


def test_a_run_and_its_gate() -> None:
    done = attn(*QUICK, "--format", "json", "--fail-if", "error_share>0.001")
    assert done.code == 1
    report = json.loads(done.out)
    assert report["study"] == "approximate rank-heads"
    assert report["input"]["tokens"] == 2
    assert "16 heads of rank 1" in report["headline"]
    assert {row["metric"] for row in report["rows"]} == set(report["metrics"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("rank-head",), "rank-heads"),
        (("rank-heads", "--pattern", "window:3"), "no such option: --pattern"),
        (("rank-heads", "--width", "4"), "no such option: --width"),
        (("rank-heads", "--causal"), "no such option: --causal"),
        (("rank-heads", "--decide"), "no such option: --decide"),
        (("rank-heads", "--ranks", "3"), "rank 3 of --ranks divides no number"),
        (("rank-heads", "--ranks", "0,2"), "whole numbers from 1 to 8"),
        (("rank-heads", "--ranks", "9"), "whole numbers from 1 to 8"),
        (("rank-heads", "--ranks", "4", "--heads-times-rank", "4,6"), "multiple of none of the ranks 4"),
        (("rank-heads", "--length", "1"), "--length must be from 2 to 1,024"),
        (("rank-heads", "--dimension", "1"), "--dimension must be from 2 to 256"),
        (("rank-heads", "--fail-if", "errr>1"), "error"),
    ],
)  # fmt: skip
def test_what_is_refused(options: tuple[str, ...], says: str) -> None:
    done = attn("reproduce", *options)
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1
