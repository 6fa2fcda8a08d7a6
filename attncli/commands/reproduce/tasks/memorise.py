"""Memorisation: labels that follow from nothing, learned by heart."""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.commands.reproduce.tasks import Examples, Sizes, Task

WORDS, SEQUENCES, LENGTH = 200, 100, 16


class TokenStream(NamedTuple):
    """The tokens of a text, one after another."""

    tokens: NDArray[np.int64]
    """Numbers from 0 on, each of which is there."""
    digest: str
    """Of the file."""


class ReleasedScriptSettings(NamedTuple):
    """Settings of the released script for texts of RTE in the word pieces of bert-base-uncased."""

    sequences: int = 500
    length: int = 128
    sizes: Sizes = Sizes(layers=6, heads=2, width=250)
    steps: int = 3150
    """50 epochs."""
    batch: int = 8
    learning_rate: float = 3e-4
    dropout: float = 0.1


def memorise(
    sequences: int = SEQUENCES,
    length: int = LENGTH,
    stream: TokenStream | None = None,
    published: bool = False,
) -> Task:
    """100 sequences of 200 words, the r-th as frequent as 1/r, with a random label of 0 or 1 for each of their tokens."""
    as_released = ReleasedScriptSettings()
    separate: dict[str, str | int | float] = {}
    if length != LENGTH:
        separate["length"] = length
    if stream is not None:
        separate["tokens_from"] = stream.digest
    if published:
        separate["dropout"] = as_released.dropout
    return Task(
        partial(sample_labelled_words, length=length, stream=stream),
        length=length,
        labels=2,
        vocabulary=WORDS if stream is None else int(stream.tokens.max()) + 1,
        sizes=as_released.sizes if published else Sizes(layers=6, heads=2, width=64),
        steps=as_released.steps if published else 400,
        learning_rate=as_released.learning_rate if published else 1e-3,
        batch=as_released.batch if published else 50,
        test_count=sequences,
        by_heart=True,
        dropout=as_released.dropout if published else 0.0,
        falling=published,
        distinct_settings=separate,
    )


def sample_labelled_words(
    random: np.random.Generator,
    number: int,
    length: int = LENGTH,
    stream: TokenStream | None = None,
) -> Examples:
    """Draw sequences in which a few words are frequent, as in texts; or take the text's own tokens
    in order, without padding."""
    if stream is None:
        frequencies = 1.0 / np.arange(1, WORDS + 1)
        words = random.choice(WORDS, size=(number, length), p=frequencies / frequencies.sum())
    else:
        words = stream.tokens[: number * length].reshape(number, length)
    return Examples(words, random.integers(2, size=(number, length)))
