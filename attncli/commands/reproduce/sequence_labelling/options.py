"""Options of `attn reproduce memorise`, `sort` and `convex-hull`."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated

from attncli.commands.reproduce.options import task_option
from attncli.declare.options import Option


@dataclass(frozen=True)
class LabellingOptions:
    """Options of the network that learns the task, and of its paths."""

    evaluate: Annotated[
        list[str],
        task_option(
            metavar="frozen,rerun",
            usual=True,
            help=(
                "Keep the attention of the full pass (frozen), or run sub-networks on their own, as published "
                "(rerun). [default: both]"
            ),
        ),
    ] = field(default_factory=list)
    paths_per_sum: Annotated[
        list[str],
        task_option(
            metavar="N,…", usual=True, help="How many random paths are summed. [default: 5,20]"
        ),
    ] = field(default_factory=list)
    layers: Annotated[
        int | None, Option(metavar="N", usual=True, help="Layers. [default: as the task needs]")
    ] = None
    heads: Annotated[
        int | None,
        Option(metavar="N", usual=True, help="Heads of a layer. [default: as the task needs]"),
    ] = None
    width: Annotated[
        int | None,
        Option(metavar="N", help="Features of a token. [default: as the task needs]"),
    ] = None

    def sizes(self) -> dict[str, int]:
        """The sizes that the user has set."""
        named = {"layers": self.layers, "heads": self.heads, "width": self.width}
        return {name: size for name, size in named.items() if size is not None}


@dataclass(frozen=True)
class MemoriseOptions:
    """The sequences that are learned by heart."""

    sequences: Annotated[
        int | None,
        task_option(metavar="N", usual=True, help="Number of sequences to learn. [default: 100]"),
    ] = None
    length: Annotated[
        int | None,
        task_option(metavar="N", usual=True, help="Tokens per sequence. [default: 16]"),
    ] = None
    tokens_from: Annotated[
        Path | None,
        task_option(
            metavar="FILE",
            help=(
                "Tokens: the words of a text, or token ids. [default: random words, the r-th as "
                "frequent as 1/r]"
            ),
        ),
    ] = None
    as_published: Annotated[
        bool,
        task_option(
            "--as-published",
            help=(
                "Run as the released script does: 500 × 128 tokens of --tokens-from, width 250, dropout "
                ".1, 3,150 steps of 8. Takes hours."
            ),
        ),
    ] = False

    @property
    def is_set(self) -> bool:
        """Whether the task differs from that of its file."""
        return any(value not in (None, False) for value in asdict(self).values())
