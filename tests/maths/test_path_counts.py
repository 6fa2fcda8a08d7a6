"""Counts of paths against enumeration and against the published shares."""

import itertools
import math
from collections import Counter

import pytest

from attncli.maths.network_path_counts import (
    compute_share_of_paths_per_length,
    count_paths_by_length,
    log10_of_integer,
)


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (3, 2), (4, 3)])
def test_counts_are_those_of_enumeration(layers: int, heads: int) -> None:
    paths = itertools.product(range(heads + 1), repeat=layers)
    assert count_paths_by_length(layers, heads, skip=True) == Counter(
        sum(map(bool, path)) for path in paths
    )
    assert count_paths_by_length(layers, heads, skip=False) == {layers: heads**layers}


@pytest.mark.parametrize(
    ("layers", "heads", "length", "share"),
    [(12, 12, 12, 0.383), (12, 12, 11, 0.383), (24, 128, 24, 0.830), (96, 96, 95, 0.370), (96, 96, 96, 0.370)],
    ids=["BERT-base", "BERT-base", "T5-11B", "GPT-3", "GPT-3"],
)  # fmt: skip
def test_published_shares(layers: int, heads: int, length: int, share: float) -> None:
    assert compute_share_of_paths_per_length(count_paths_by_length(layers, heads, skip=True))[
        length
    ] == pytest.approx(share, abs=5e-4)


def test_counts_of_any_size_have_a_logarithm() -> None:
    assert log10_of_integer(1) == 0.0
    assert log10_of_integer(10**15) == pytest.approx(15.0, abs=1e-14)
    assert log10_of_integer(97**1000) == pytest.approx(1000 * math.log10(97), rel=1e-14)
