"""Options of `attn check` that select the displayed rows of a saved report."""

from dataclasses import dataclass
from functools import partial

from attncli.declare.option_declarations import declare_option

row_option = partial(declare_option, panel="Rows")


@dataclass(frozen=True)
class RowOptions:
    """Which of the report's numbers are shown, and in which order; its gates see all of them."""

    metric: list[str] = row_option(
        default=[], metavar="METRIC,…", help="Show only these metrics of the report."
    )
    sort: str | None = row_option(
        metavar="METRIC[:rising]", usual=True, help="Show its heads in a table, sorted by METRIC."
    )
    top: int | None = row_option(
        metavar="N", usual=True, help="Show only the first N heads by --sort."
    )
