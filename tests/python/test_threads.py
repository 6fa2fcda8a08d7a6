"""BLAS threads: one around our own loops, the caller's own number before and after."""

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest
import scipy.linalg  # noqa: F401 - so that its BLAS can be asked
from helpers import LONG
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

import attncli as attn
from attncli.blas_threads_and_lock import limit_blas_to_one_thread
from attncli.fits import _width_search

SMALL: dict[str, Any] = {"pattern": "window:3", "length": 8, "method": "learned"}


def threads() -> list[int]:
    """Of numpy's and scipy's libraries."""
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


@pytest.fixture
def _two_threads() -> Iterator[None]:
    """Set by no thread in particular: newer threadpoolctl lets the one that has set a number set another alone."""
    with threadpool_limits(2, "blas"):
        for library in ThreadpoolController().lib_controllers:
            getattr(library, "clear_controlling_thread", bool)()
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("_two_threads")
def test_a_question_uses_one_and_gives_the_others_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before, inside = threads(), []
    honest = _width_search.run_fitting_method

    def look(*given: Any) -> Any:
        inside.append(threads())
        return honest(*given)

    monkeypatch.setattr(_width_search, "run_fitting_method", look)
    attn.approximate(**SMALL)
    assert threads() == before
    assert set(before) == {2}
    assert inside
    assert {number for each in inside for number in each} == {1}


@pytest.mark.usefixtures("_two_threads")
def test_also_where_it_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(
        "attncli.analysis.rank_collapse.network_collapse.run_network_in_all_variants", fail
    )
    with pytest.raises(ZeroDivisionError):
        attn.rank_collapse(layers=1, tokens=3, width=4, heads=1)
    assert set(threads()) == {2}


@pytest.mark.usefixtures("_two_threads")
def test_questions_that_overlap_give_back_what_was_there_before_the_first() -> None:
    """In each order of ending: the first to begin ends first, or last."""
    for first_ends_first in (True, False):
        one, other = limit_blas_to_one_thread(), limit_blas_to_one_thread()
        one.__enter__()
        other.__enter__()
        assert set(threads()) == {1}
        (one if first_ends_first else other).__exit__(None, None, None)
        assert set(threads()) == {1}
        (other if first_ends_first else one).__exit__(None, None, None)
        assert set(threads()) == {2}


@pytest.mark.usefixtures("_two_threads")
def test_questions_of_two_threads_overlap() -> None:
    inside, ended = [Event(), Event()], Event()

    def ask(own: Event, until: Event) -> None:
        def watch(*_: Any) -> None:
            own.set()
            assert until.wait(LONG)

        attn.rank_collapse(layers=1, tokens=3, width=4, heads=1, seeds=1, progress=watch)

    first = Thread(target=ask, args=(inside[0], inside[1]))
    second = Thread(target=ask, args=(inside[1], ended))
    first.start()
    assert inside[0].wait(LONG)
    second.start()
    first.join()
    during = set(threads())
    ended.set()
    second.join()
    assert during == {1}
    assert set(threads()) == {2}
