"""Sorting: digits in, the same digits in order out."""

import numpy as np

from attncli.commands.reproduce.tasks import Examples, Sizes, Task

DIGITS, LENGTH = 10, 8


def sort() -> Task:
    """8 digits, each drawn from 10 with repetition; the label of place i is the i-th smallest of them."""
    return Task(
        sample_digits_to_sort,
        length=LENGTH,
        labels=DIGITS,
        vocabulary=DIGITS,
        sizes=Sizes(layers=6, heads=2, width=48),
        steps=1000,
        learning_rate=1e-3,
        batch=32,
    )


def sample_digits_to_sort(stream: np.random.Generator, number: int) -> Examples:
    digits = stream.integers(DIGITS, size=(number, LENGTH))
    return Examples(digits, np.sort(digits, axis=1))
