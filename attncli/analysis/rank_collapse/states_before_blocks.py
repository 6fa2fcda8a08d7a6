"""States of a model that steps lead from, while it runs: before blocks, and before parts of a block."""

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

AFTER_MLP = "mlp"
"""Name of the last sub-block: the state after it is the block's, its change is its own."""

T = TypeVar("T")


@dataclass
class PreviousStates(Generic[T]):
    """The states that steps lead from: those after the last blocks of every stack, and one inside the present block."""

    over: int = 1
    """Number of blocks per step."""
    whole: dict[str, deque[tuple[int, T]]] = field(default_factory=dict)
    inner: dict[str, tuple[int, T]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    """Of the states inside the present block, in their order."""

    def add_block_state(self, stack: str, index: int, state: T) -> None:
        """The state after a block."""
        self.whole.setdefault(stack, deque(maxlen=self.over)).append((index, state))

    def add_sub_block_state(self, stack: str, index: int, state: T, after: str) -> None:
        """Record a state inside the block of this index, after the sub-block of that name."""
        if not self.has_state_before_sub_block(stack, index):
            self.names[stack] = []
        self.names[stack].append(after)
        self.inner[stack] = index, state

    def state_before_block(self, stack: str, index: int) -> T | None:
        """The input of the blocks up to this index."""
        for earlier, state in self.whole.get(stack, ()):
            if earlier == index - self.over:
                return state
        return None

    def state_before_sub_block(self, stack: str, index: int) -> T | None:
        """The input of the present sub-block: the state after the previous one, or the block's own
        input."""
        earlier, state = self.inner.get(stack, (None, None))
        if earlier == index:
            return state
        blocks = self.whole.get(stack)
        return blocks[-1][1] if blocks and blocks[-1][0] == index - 1 else None

    def name_of_last_sub_block(self, stack: str) -> str:
        """Of the present block's last sub-block; with its number where another one is called so, as in conformers."""
        names = self.names[stack]
        return f"{AFTER_MLP} {len(names) + 1}" if AFTER_MLP in names else AFTER_MLP

    def has_state_before_sub_block(self, stack: str, index: int) -> bool:
        """Whether the block's last sub-block has a state of its own before it."""
        return self.inner.get(stack, (None,))[0] == index
