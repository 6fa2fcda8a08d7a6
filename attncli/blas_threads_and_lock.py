"""State that threads of one process share: the number of BLAS threads, and turns of questions that change global
state.

Our products are small: waking more threads costs more than they give (a learned fit takes many times the CPU with two of
them on busy cores). The command says so to its whole process before anything is loaded (`cli/main.py`); in a caller's
process it holds only while a question is answered. torch's own libraries are left alone.

While a model is watched, its library's attention, default types and modes are in other hands, for all threads: such
questions come one after another.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path

from threadpoolctl import LibController

from attncli.errors import UsageError


class BlasThreadLimit:
    """Libraries limited to one thread, with the number of users of each and the setting before the first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders: dict[str, int] = {}
        self.before: dict[str, int] = {}

    def limit_library_to_one_thread(self, library: LibController) -> None:
        path = library.filepath
        self.holders[path] = self.holders.get(path, 0) + 1
        if self.holders[path] == 1:
            self.before[path] = library.get_num_threads()
            set_thread_count(library, 1)

    def restore_library_threads(self, library: LibController) -> None:
        path = library.filepath
        self.holders[path] -= 1
        if not self.holders[path]:
            set_thread_count(library, self.before.pop(path))
            del self.holders[path]


def set_thread_count(library: LibController, number: int) -> None:
    """Where threadpoolctl lets the thread that has set a number set another alone, whoever ends last must be let too."""
    library.set_num_threads(number)
    free = getattr(library, "clear_controlling_thread", None)
    if free is not None:
        free()


HELD = BlasThreadLimit()


@lru_cache(maxsize=1)
def find_blas_libraries(modules: int) -> list[LibController]:
    """Those of this process, torch's aside: looked for again whenever another number of modules has been imported."""
    from threadpoolctl import ThreadpoolController

    return [
        library
        for library in ThreadpoolController().lib_controllers
        if library.user_api == "blas" and "torch" not in Path(library.filepath).parts
    ]


@contextmanager
def limit_blas_to_one_thread() -> Iterator[None]:
    """Also a decorator. What is loaded later is not seen: whoever loads scipy enters once more."""
    import numpy  # noqa: F401 - so that its library is there to be seen

    with HELD.lock:
        ours = find_blas_libraries(len(sys.modules))
        for library in ours:
            HELD.limit_library_to_one_thread(library)
    try:
        yield
    finally:
        with HELD.lock:
            for library in ours:
                HELD.restore_library_threads(library)


class MeasurementLock(threading.local):
    """The questions that this thread is answering, the innermost last."""

    lock = threading.Lock()
    """Of all threads: who holds it may change what a process has but one of."""

    def __init__(self) -> None:
        self.open_stacks: list[ExitStack] = []
        self.holder: ExitStack | None = None

    @contextmanager
    def open_measurement_scope(self) -> Iterator[None]:
        """Within, a turn may be taken, which ends with it."""
        with ExitStack() as ends:
            self.open_stacks.append(ends)
            ends.callback(self.open_stacks.pop)
            yield

    def acquire_lock_until_scope_ends(self) -> ExitStack | None:
        """Wait for the turn, and return what ends with it; None if no question runs in this thread, or if it already has the turn."""
        own = self.open_stacks[-1] if self.open_stacks else None
        if own is None or own is self.holder:
            return None
        if self.holder is not None:
            raise UsageError(
                "a question about a model is asked while this thread is answering another one, as from its `progress`: "
                "ask it when that answer is there."
            )
        self.lock.acquire()
        self.holder = own
        own.callback(self.release_lock)
        return own

    def release_lock(self) -> None:
        self.holder = None
        self.lock.release()


TURNS = MeasurementLock()
