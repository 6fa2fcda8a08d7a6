"""Runs of a model that draws numbers at random, made alike."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def fix_rng() -> Iterator[None]:
    """Whatever is drawn at random is drawn the same in every run, and the caller's generator stays where it was."""
    with torch.random.fork_rng():
        if torch.accelerator.is_available():
            torch.manual_seed(0)
        else:  # the same without the stack of callers that it notes for devices to come, every time
            torch.default_generator.manual_seed(0)
        yield
