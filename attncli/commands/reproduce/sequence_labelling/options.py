"""Options of `attn reproduce memorise`, `sort` and `convex-hull`."""

from dataclasses import asdict, dataclass
from pathlib import Path

from attncli.commands.reproduce.options import task_option
from attncli.declare.option_declarations import Applies, declare_option


@dataclass(frozen=True)
class LabellingOptions:
    """Options of the network that learns the task, and of its paths."""

    evaluate: list[str] = task_option(
        default=[],
        metavar="frozen,rerun",
        usual=True,
        help=(
            "Keep the attention of the full pass (frozen), or run sub-networks on their own, as published "
            "(rerun). [default: both]"
        ),
    )
    paths_per_sum: list[str] = task_option(
        default=[],
        metavar="N,…",
        usual=True,
        help="How many random paths are summed. [default: 5,20]",
    )
    layers: int | None = declare_option(
        metavar="N", usual=True, help="Layers. [default: as the task needs]"
    )
    heads: int | None = declare_option(
        metavar="N", usual=True, help="Heads of a layer. [default: as the task needs]"
    )
    width: int | None = declare_option(
        metavar="N", help="Features of a token. [default: as the task needs]"
    )

    def list_sizes_set_by_user(self) -> dict[str, int]:
        """The sizes that the user has set."""
        named = {"layers": self.layers, "heads": self.heads, "width": self.width}
        return {name: size for name, size in named.items() if size is not None}


@dataclass(frozen=True)
class MemoriseOptions:
    """The sequences that are learned by heart."""

    sequences: int | None = task_option(
        metavar="N", usual=True, help="Number of sequences to learn. [default: 100]"
    )
    length: int | None = task_option(
        metavar="N", usual=True, help="Tokens per sequence. [default: 16]"
    )
    tokens_from: Path | None = task_option(
        metavar="FILE",
        help=(
            "Tokens: the words of a text, or token ids. [default: random words, the r-th as "
            "frequent as 1/r]"
        ),
    )
    as_published: bool = task_option(
        default=False,
        applies=Applies(
            needs=("tokens_from",),
            why="{name} learns a text by heart: name a file of words or token ids with `tokens_from`.",
        ),
        help=(
            "Run as the released script does: 500 × 128 tokens of --tokens-from, width 250, dropout "
            ".1, 3,150 steps of 8. Takes about 15 minutes per seed."
        ),
    )

    @property
    def differs_from_default_task(self) -> bool:
        """Whether the task differs from that of its file."""
        return any(value not in (None, False) for value in asdict(self).values())
