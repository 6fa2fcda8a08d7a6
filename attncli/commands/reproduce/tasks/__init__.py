"""Tasks that give every token of a sequence a label, one per file.

To add one, add a file `attncli/commands/reproduce/tasks/NAME.py` with a function `NAME()` that returns its `Task`; the first
line of its docstring says what is learned.

    >>> import numpy as np
    >>> from attncli.commands.reproduce.tasks import TASKS
    >>> examples = TASKS["sort"]().draw(np.random.default_rng(0), 1)
    >>> examples.inputs[0].tolist(), examples.labels[0].tolist()
    ([8, 6, 5, 2, 3, 0, 0, 0], [0, 0, 0, 2, 3, 5, 6, 8])
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.registry import Registry

TASKS: Registry[Callable[[], "Task"]] = Registry("task", "attncli.commands.reproduce.tasks")


class Examples(NamedTuple):
    """Sequences with their labels."""

    inputs: NDArray[np.generic]
    """Tokens [sequence, token], or points of the plane [sequence, token, 2] in float32."""
    labels: NDArray[np.int64]
    """[sequence, token]"""


@dataclass(frozen=True)
class Sizes:
    """Of a network."""

    layers: int
    heads: int
    width: int


@dataclass(frozen=True)
class Task:
    """A task, and settings with which it is learned well."""

    draw: Callable[[np.random.Generator, int], Examples]
    """Draws this many sequences."""
    length: int
    """Tokens of a sequence."""
    labels: int
    vocabulary: int | None
    """Size of the vocabulary; None: the tokens are points."""
    sizes: Sizes
    """As published, or smaller."""
    steps: int
    learning_rate: float
    batch: int
    test_count: int = 200
    """Sequences on which accuracies are taken."""
    by_heart: bool = False
    """Train on the test questions themselves, again and again; else draw new sequences for every
    step and for the test."""
    dropout: float = 0.0
    """While it is trained."""
    falling: bool = False
    """The learning rate falls from the first step to the last; else it rises over a tenth of them and falls over a half."""
    distinct_settings: Mapping[str, str | int | float] = field(default_factory=dict)
    """Settings that distinguish this training from the task's default."""
