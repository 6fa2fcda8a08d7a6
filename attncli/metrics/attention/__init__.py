"""Measurements of attention heads, one per file: functions of what a head's map shows, computed from strips of its rows.

A file holds a function of its own name under `@measure(…)`, which says what the function is given:

    rows      a strip of whole rows (`_strip_rows.Rows`): returns one number for each of them, whose mean (or largest,
              or least) is the metric; rows that do not count are nan
    columns   what each key has received in all (`_received.Columns`): returns one number for each head
    offsets   what lies on each diagonal (`_offsets.Offsets`): likewise
    spectrum  the largest singular values (`_map_spectrum.Spectrum`): likewise
    gram      all singular values (`_gram.Gram`): likewise
    energy    squares of what each key has received (`_column_energy.ColumnEnergy`): likewise
    block     where late queries look at early keys (`_past_block.PastBlock`): likewise
    sides     queries, keys and values (`_sides.Sides`): likewise
    outputs   what the heads write (`_outputs.Outputs`): likewise
    gates     what multiplies that before (`_gates.Gates`): one number for each head, of one text

Tensors are only used by their methods, so that nothing here imports torch. Axes: [batch, head, query, key]; a map's
batch items count alike.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from attncli.records import Definition
from attncli.registry import Registry

ATTENTION = Registry("attention metric", "attncli.metrics.attention")

Function = TypeVar("Function", bound=Callable[..., Any])

BESIDE_MAPS = ("outputs", "sides", "gates")
"""What metrics read that is not in a map."""

GROUPS = ("attention", "spectra", "roles", "copying", "lazy", "sinks", "gates", "memory")
"""Groups by which metrics may be requested."""


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The properties of a metric, known before it is computed."""

    unit: str
    of: str
    """The function's argument: rows, columns, offsets, spectrum, gram, energy, block, sides, outputs or gates."""
    group: str
    """attention, roles, copying, spectra, lazy, sinks, gates or memory: its group in `--metric`."""
    needs: tuple[str, ...]
    """What the map must have for the metric to apply, by the names in `_totals.MetricTotals`."""
    axis: str
    """The name of the last axis, where the metric is several numbers of a head."""
    signed: bool
    """Whether it is defined for weights of both signs too, as differential attention applies them."""
    take: str
    """How the numbers of several queries, batch items and texts are reduced: mean, max or min."""
    enough: bool
    """Whether only queries count that see at least half as many keys as the one that sees the most."""
    undefined: str
    """Why a head has no such number, where it is nan."""
    text: str
    """The kind of text that attn generates for it; empty where it is measured on the user's, or on repeats."""


def measure(
    unit: str,
    of: str = "rows",
    group: str = "attention",
    needs: tuple[str, ...] = (),
    axis: str = "",
    signed: bool = False,
    take: str = "mean",
    enough: bool = False,
    undefined: str = "",
    text: str = "",
) -> Callable[[Function], Function]:
    """Attach a metric's properties; the function itself is returned unchanged."""

    def attach(function: Function) -> Function:
        function.nature = MetricSpec(  # type: ignore[attr-defined]
            unit, of, group, needs, axis, signed, take, enough, undefined, text
        )
        return function

    return attach


def metric_spec(name: str) -> MetricSpec:
    found: MetricSpec = ATTENTION[name].nature  # type: ignore[attr-defined]
    return found


def is_map_metric(name: str) -> bool:
    """Whether the metric is computed from maps alone."""
    return metric_spec(name).of not in BESIDE_MAPS


def definition(name: str) -> Definition:
    return Definition(metric_spec(name).unit, ATTENTION.summary(name))
