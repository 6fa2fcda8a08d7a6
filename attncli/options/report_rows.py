"""Options of `attn check` that select the displayed rows of a saved report."""

from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from attncli.declare.options import Option
from attncli.options.shared import split_names

row_option = partial(Option, panel="Rows")


@dataclass(frozen=True)
class RowOptions:
    """Which of the report's numbers are shown, and in which order; its gates see all of them."""

    metric: Annotated[
        list[str],
        row_option(metavar="METRIC,…", help="Show only these metrics of the report."),
    ] = field(default_factory=list)
    sort: Annotated[
        str | None,
        row_option(
            metavar="METRIC[:rising]",
            usual=True,
            help="Show its heads in a table, sorted by METRIC.",
        ),
    ] = None
    top: Annotated[
        int | None,
        row_option(metavar="N", usual=True, help="Show only the first N heads by --sort."),
    ] = None

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(split_names(self.metric)))
