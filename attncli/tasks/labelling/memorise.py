"""Memorisation: labels that follow from nothing, learned by heart."""

import numpy as np

from attncli.tasks.labelling import Examples, Sizes, Task

WORDS, LENGTH = 200, 16


def memorise() -> Task:
    """100 sequences of 200 words, the r-th as frequent as 1/r, with a random label of 0 or 1 for each of their tokens."""
    return Task(
        draw,
        length=LENGTH,
        labels=2,
        vocabulary=WORDS,
        sizes=Sizes(layers=6, heads=2, width=64),
        steps=400,
        learning_rate=1e-3,
        batch=50,
        asked=100,
        by_heart=True,
    )


def draw(stream: np.random.Generator, number: int) -> Examples:
    """As in texts a few words make most of a sequence."""
    frequencies = 1.0 / np.arange(1, WORDS + 1)
    words = stream.choice(WORDS, size=(number, LENGTH), p=frequencies / frequencies.sum())
    return Examples(words, stream.integers(2, size=(number, LENGTH)))
