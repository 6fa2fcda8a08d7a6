"""A loop over texts or models, divided over the ranks; in one process it is a plain loop."""

import pickle
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from attncli.distributed_ranks import read_launch_environment
from attncli.errors import InputError
from attncli.processes.resume_cache import Keep

T = TypeVar("T")
R = TypeVar("R")


class RankResults(NamedTuple):
    """The share of one rank in a loop."""

    results: dict[int, Any]
    first_failure: tuple[int, Exception] | None
    """The first item that could not be done, and why."""


class SharedWork:
    """How the ranks work on a loop."""

    def __init__(self) -> None:
        self.together = False
        """Whether all ranks work on every item, each with its part of one model; else each has its
        own items."""


WORK = SharedWork()
"""Of this process."""


def list_item_indices_of_rank(items: Sequence[T]) -> range:
    """The indices of this rank's items: every n-th."""
    here = read_launch_environment()
    if WORK.together or not here.is_distributed:
        return range(len(items))
    return range(here.rank, len(items), here.size)


def divide_work_between_ranks(
    items: Sequence[T],
    work: Callable[[T], R],
    name: Callable[[T], str],
    keep: Keep | None = None,
) -> list[R]:
    """Apply `work` to every item, in order; all ranks get all results. A failure of the first such
    item is raised on all.

    `name` identifies all that an item's result depends on, so that ranks that see different files
    are detected. `keep`: a cache of results; a single item has no use for it.
    """
    if not read_launch_environment().is_distributed:
        if keep is None or len(items) < 2:
            return [work(item) for item in items]
        return [keep(name(item), partial(work, item)) for item in items]
    from attncli.processes.rank_communication import gather_from_ranks

    names = [name(item) for item in items]
    require_same_work_on_ranks(gather_from_ranks(names))
    if WORK.together:
        return [work(item) for item in items]
    shares: list[RankResults] = gather_from_ranks(run_items_of_rank(items, names, work, keep))
    failures = [share.first_failure for share in shares if share.first_failure is not None]
    if failures:
        raise min(failures, key=lambda failed: failed[0])[1]
    results = {place: result for share in shares for place, result in share.results.items()}
    return [results[place] for place in range(len(items))]


def run_items_of_rank(
    items: Sequence[T], names: Sequence[str], work: Callable[[T], R], keep: Keep | None
) -> RankResults:
    """This rank's share, up to its first failure."""
    results: dict[int, R] = {}
    for place in list_item_indices_of_rank(items):
        try:
            make = partial(work, items[place])
            results[place] = make() if keep is None else keep(names[place], make)
        except Exception as error:
            return RankResults(results, (place, make_error_picklable(error)))
    return RankResults(results, None)


def make_error_picklable(error: Exception) -> Exception:
    """A picklable copy of the error for other ranks, with its traceback as text for --debug."""
    error.add_note(
        f"Raised on rank {read_launch_environment().rank}:\n{''.join(traceback.format_exception(error))}"
    )
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def require_same_work_on_ranks(seen: Sequence[Sequence[str]]) -> None:
    """Refuse ranks that see different files, before any result is computed."""
    for rank, names in enumerate(seen):
        if names != seen[0]:
            raise InputError(
                f"the processes do not see the same model and texts: rank {rank} differs from rank 0; "
                "give all of them the same files."
            )
