"""BLAS threads: one around our own loops, the caller's own number before and after."""

from collections.abc import Iterator
from typing import Any

import pytest
import scipy.linalg  # noqa: F401 - so that its BLAS can be asked
from threadpoolctl import threadpool_info, threadpool_limits

import attncli as attn
from attncli.fits import _search

SMALL: dict[str, Any] = {"pattern": "window:3", "length": 8, "method": "learned"}


def threads() -> list[int]:
    """Of numpy's and scipy's libraries."""
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


@pytest.fixture
def _two_threads() -> Iterator[None]:
    with threadpool_limits(2, "blas"):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_two_threads")
def test_a_question_uses_one_and_gives_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before, inside = threads(), []
    honest = _search.one_fit

    def look(*given: Any) -> Any:
        inside.append(threads())
        return honest(*given)

    monkeypatch.setattr(_search, "one_fit", look)
    attn.approximate(**SMALL)
    assert threads() == before
    assert set(before) == {2}
    assert inside
    assert {number for each in inside for number in each} == {1}


@pytest.mark.usefixtures("_two_threads")
def test_also_where_it_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("attncli.studies.collapse.network_collapse.run", fail)
    with pytest.raises(ZeroDivisionError):
        attn.rank_collapse(layers=1, tokens=3, width=4, heads=1)
    assert set(threads()) == {2}
