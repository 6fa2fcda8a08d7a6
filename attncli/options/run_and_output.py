"""Options shared by the commands, each declared once, in groups."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from attncli.declare.command_table import GATE
from attncli.declare.option_declarations import (
    ANY_MODEL,
    SYNTHETIC,
    WRITES,
    Applies,
    declare_option,
)
from attncli.errors import UsageError
from attncli.io.remote_files import is_remote_url
from attncli.options.value_completion import complete_format

DEFAULT_SEEDS = 5
MOST_SEEDS = 100_000
INCHES = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)[x×](\d{1,3}(?:\.\d{1,4})?)")
SMALLEST_FIGURE, LARGEST_FIGURE = 1.0, 40.0
"""Inches."""
LARGEST_SEED = 2**63 - 1


def split_comma_separated_names(names: Iterable[str]) -> list[str]:
    """Repeated and comma-separated names as one list."""
    parts = [part.strip() for text in names for part in text.split(",")]
    if "" in parts:
        raise UsageError("there is an empty name in a list of names: drop it.")
    return parts


OF_NETWORKS = Applies(to=SYNTHETIC)
ANY_RUN = Applies(to=(*SYNTHETIC, *ANY_MODEL))
"""For generated networks and for model inputs; a network file fixes it."""


output_option = partial(declare_option, panel="Output")
OF_A_FILE = "{name} is of a figure in a file: name one with `plot`."


@dataclass(frozen=True)
class RunOptions:
    """Which random networks."""

    seed: int | None = declare_option(applies=ANY_RUN, help="First seed. [default: 0]")
    seeds: int | None = declare_option(
        usual=True,
        applies=OF_NETWORKS,
        help="Number of random networks to average over. [default: 5]",
    )

    def collect_values_that_are_set(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def list_seeds(self) -> list[int]:
        first, count = self.seed or 0, DEFAULT_SEEDS if self.seeds is None else self.seeds
        if not 0 <= first <= LARGEST_SEED or not 1 <= count <= MOST_SEEDS:
            raise UsageError(
                f"`seed` must be from 0 to {LARGEST_SEED} and `seeds` from 1 to {MOST_SEEDS}."
            )
        return list(range(first, first + count))


def validate_seed(seed: int) -> int:
    if not 0 <= seed <= LARGEST_SEED:
        raise UsageError(f"`seed` must be from 0 to {LARGEST_SEED}, not {seed}.")
    return seed


@dataclass(frozen=True)
class OutputOptions:
    """Where the report goes, its format, and its gates."""

    format: str | None = output_option(
        metavar="NAME",
        complete=complete_format,
        usual=True,
        applies=Applies(
            excludes=("plot:terminal",),
            unless=("table", "markdown"),
            why="`plot` would spoil the {value}: give it a file, as in `plot='curves.png'`.",
        ),
        help="Format (`attn list formats`). [default: from -o, else table]",
    )
    output: str | None = output_option(
        "--output",
        "-o",
        metavar="FILE",
        usual=True,
        applies=WRITES,
        help="Write to FILE (atomically).",
    )
    fail_if: list[str] = output_option(
        default=[],
        metavar="CONDITION",
        usual=True,
        help=f"Exit 1 if CONDITION is true: '{GATE}'. Repeatable.",
    )
    plot: str | None = output_option(
        metavar="[FILE.pdf|svg|png]",
        usual=True,
        applies=WRITES,
        help="Draw the figure in the terminal, or save it to a file.",
    )
    figure_size: str | None = output_option(
        metavar="WxH",
        applies=(
            Applies(needs=("plot",), why=OF_A_FILE),
            Applies(excludes=("plot:terminal",), why=OF_A_FILE),
        ),
        help="Size of the figure in inches, as in 3.4x2.6. [default: as its panels need]",
    )
    quiet: bool = output_option(
        "--quiet", "-q", default=False, help="Print nothing on stderr but errors."
    )
    no_progress: bool = output_option(default=False, help="Hide the progress bar.")

    @property
    def local_report_path(self) -> Path | None:
        """The report's path; None for stdout or an address."""
        return None if self.output is None or is_remote_url(self.output) else Path(self.output)

    def figure_size_in_inches(self) -> tuple[float, float] | None:
        """Width and height of the figure."""
        if self.figure_size is None:
            return None
        found = INCHES.fullmatch(self.figure_size)
        size = (float(found[1]), float(found[2])) if found else (0.0, 0.0)
        if not all(SMALLEST_FIGURE <= side <= LARGEST_FIGURE for side in size):
            raise UsageError(
                f"`figure_size={self.figure_size!r}`: write width and height in inches, {SMALLEST_FIGURE:g} to "
                f"{LARGEST_FIGURE:g}, as in 3.4x2.6."
            )
        return size

    @property
    def shows_progress(self) -> bool:
        return not (self.quiet or self.no_progress)
