"""Limits of the machine, checked before the work begins."""

import os
from collections.abc import Sequence
from pathlib import Path

from attncli.errors import LimitError

MEMINFO, STATM = Path("/proc/meminfo"), Path("/proc/self/statm")

MEMORY = "ATTN_MEMORY"
"""The environment variable for the bytes that a worker may take, where several share a machine."""

MOST_DIGITS = 18
"""The most digits of a whole number: longer ones fit no machine word, and Python refuses thousands of them."""


def parse_whole_number(text: str) -> int | None:
    """Parse a whole number from 0 on; None if the text is none, or is larger than any size."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


def available_memory() -> int | None:
    """Bytes that can be used without swapping, or what is left of this process's share; None where the system does not tell."""
    free, share = free_memory(), parse_whole_number(os.environ.get(MEMORY, ""))
    left = None if share is None else max(0, share - process_memory())
    return left if free is None else free if left is None else min(free, left)


def process_memory() -> int:
    """Bytes of this process's own memory; files that the system pages in are not counted."""
    try:
        _, resident, shared, *_ = STATM.read_text().split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def divide_free_memory_between_processes(free: Sequence[int | None]) -> None:
    """Divide the free memory between processes that start together on one machine; `free` as each has seen it.

    Asked while they load, the system would promise the same bytes to all of them.
    """
    known = [size for size in free if size is not None]
    share = parse_whole_number(os.environ.get(MEMORY, ""))
    if known and len(free) > 1:
        part = min(known) // len(free)
        os.environ[MEMORY] = str(part if share is None else min(part, share))


def free_memory() -> int | None:
    try:
        lines = MEMINFO.read_text().splitlines()
    except OSError:
        return None
    sizes = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(sizes["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in sizes else None


def is_within_memory(size: int) -> bool:
    """Whether so many bytes fit in memory, as far as is known."""
    available = available_memory()
    return available is None or size <= available


def require_memory(needed: int, what: str, advice: str) -> None:
    """Refuse work that cannot fit, before it starts."""
    available = available_memory()
    if available is not None and needed > available:
        raise LimitError(
            f"{what} needs about {format_gibibytes(needed)}, {format_gibibytes(available)} are free: {advice}."
        )


MOST_PAIRS = 10**13
"""Products of a query and a key in one run: days on one core, at some 10^8 a second."""


def refuse_too_many_token_pairs(pairs: int, what: str, advice: str) -> None:
    """Refuse work that would silently run for days."""
    if pairs > MOST_PAIRS:
        raise LimitError(
            f"{what} compares {pairs:,} pairs of tokens, days of work (at most {MOST_PAIRS:,}): {advice}."
        )


def format_gibibytes(size: int) -> str:
    """Format bytes in GiB with two digits, and never a power of ten."""
    number = size / 2**30
    return f"{float(f'{number:.2g}'):,.0f} GiB" if number >= 10 else f"{number:.2g} GiB"
