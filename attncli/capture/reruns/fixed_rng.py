"""Give a model the same random numbers in every run."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fix_rng() -> Iterator[None]:
    """Fix the random seed within, and restore the caller's generator."""
    with torch.random.fork_rng():
        if torch.accelerator.is_available():
            torch.manual_seed(0)
        else:  # as torch.manual_seed, but without recording a stack trace for lazy devices on every call
            torch.default_generator.manual_seed(0)
        yield
