"""Options of `attn inspect-model` that choose layers and heads."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

from attncli.declare.option_declarations import declare_option
from attncli.errors import UsageError
from attncli.options.run_and_output import split_comma_separated_names
from attncli.options.value_completion import complete_metric_sort_order

LARGEST_NUMBER = 100_000
"""Of a layer or head that can be named."""
RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
HEAD = re.compile(r"(\d{1,9})\.(\d{1,9})")

GROUPS = (
    "attention",
    "spectra",
    "roles",
    "copying",
    "lazy",
    "sinks",
    "gates",
    "memory",
    "states",
    "weights",
    "all",
)
"""Groups that `--metric` accepts besides names."""

head_option = partial(declare_option, panel="Layers and heads")


@dataclass(frozen=True)
class HeadChoice:
    """Which heads are measured."""

    layers: list[str] = head_option(
        default=[],
        metavar="N,N-M,…",
        usual=True,
        help="Measure only the attention of these layers.",
    )
    heads: list[str] = head_option(
        default=[],
        metavar="N,N-M,L.H,…",
        usual=True,
        help="Measure only these heads; 5.1 is head 1 of layer 5.",
    )

    def list_options_that_are_set(self) -> list[str]:
        """Names of the options that the command line sets."""
        return [name for name, value in asdict(self).items() if value not in ([], None)]

    def choose_layers_to_measure(self) -> frozenset[int] | None:
        """The layers to measure; None = all."""
        if self.layers:
            return frozenset(parse_layer_or_head_ranges("layers", self.layers))
        named = (
            [HEAD.fullmatch(part) for part in split_comma_separated_names(self.heads)]
            if self.heads
            else []
        )
        if named and all(named):
            return frozenset(int(match[1]) for match in named if match)
        return None

    def make_head_filter(self) -> Callable[[int, int], bool]:
        """Whether a head of a layer is reported."""
        if not self.heads:
            return lambda layer, head: True
        parts = split_comma_separated_names(self.heads)
        pairs = {(int(m[1]), int(m[2])) for part in parts if (m := HEAD.fullmatch(part))}
        plain = set(
            parse_layer_or_head_ranges(
                "heads", [part for part in parts if not HEAD.fullmatch(part)]
            )
        )
        return lambda layer, head: head in plain or (layer, head) in pairs


@dataclass(frozen=True)
class HeadOptions(HeadChoice):
    """Which heads are measured, and in which order they are shown."""

    top: int | None = head_option(
        metavar="N", usual=True, help="Show only the first N heads by --sort."
    )
    sort: str | None = head_option(
        metavar="METRIC[:rising]",
        complete=complete_metric_sort_order,
        usual=True,
        help="Show a table of heads, sorted by METRIC. [with --top: the first --metric]",
    )


@dataclass(frozen=True)
class LayerHeadOptions:
    """Which layers, and which heads of each."""

    layers: list[str] = head_option(
        default=[], metavar="N,N-M,…", usual=True, help="Only these layers."
    )
    heads: list[str] = head_option(
        default=[], metavar="N,N-M,…", usual=True, help="Only these heads of each layer."
    )


def parse_layer_or_head_ranges(name: str, texts: list[str]) -> list[int]:
    """`0,3-5` as 0 3 4 5."""
    found: list[int] = []
    for part in split_comma_separated_names(texts) if texts else []:
        match = RANGE.fullmatch(part)
        if match is None:
            how = "write numbers and ranges, as in 0,3-5."
            if name == "heads" and HEAD.fullmatch(part):
                how = "name layers and heads apart, as in `layers=5, heads=1`."
            raise UsageError(f"`{name}={part!r}`: {how}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last > LARGEST_NUMBER:
            raise UsageError(f"`{name}={part!r}`: no model has more than {LARGEST_NUMBER:,}.")
        if last < first:
            raise UsageError(f"`{name}={part!r}`: a range rises, as in {last}-{first}.")
        found += range(first, last + 1)
    return found
