"""Measurements of attention heads, one per file: functions of what a head's map shows, computed from strips of its rows.

A file holds a function of its own name under `@metric(…)`. What its parameter is called says what it is given:

    rows      a strip of whole rows (`_map_strip_rows.MapStripRows`): returns one number for each of them, whose mean (or largest,
              or least) is the metric; rows that do not count are nan
    summaries what each row comes to (`_map_strip_rows.MapStripRows`, without its weights): likewise
    columns   what each key has received in all (`_column_and_diagonal_sums.ReceivedMass`): returns one number for each head
    offsets   what lies on each diagonal (`_column_and_diagonal_sums.Offsets`): likewise
    spectrum  the largest singular values (`_map_spectrum.SpectrumIteration`): likewise
    gram      how many singular values hold most of a map (`_energy_rank.EnergyRank`): likewise
    energy    squares of what each key has received (`_column_energy.ColumnEnergy`): likewise
    block     where late queries look at early keys (`_off_diagonal_block.PastBlock`): likewise
    sides     queries, keys and values (`_query_key_value_statistics.OperandStatistics`): likewise
    outputs   what the heads write (`_head_outputs.HeadOutputs`): likewise
    gates     what multiplies that before (`_gate_statistics.GateObservations`): one number for each head, of one text

Tensors are only used by their methods, so that nothing here imports torch. Axes: [batch, head, query, key]; a map's
batch items count alike.

    >>> from attncli.metrics.attention import ATTENTION
    >>> ATTENTION.declaration_of_entry("sink").of, ATTENTION.summary("sink")
    ('columns', 'Mean weight on token 0 from the queries that see it.')
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attncli.metrics import MetricRegistry

if TYPE_CHECKING:
    from torch import Tensor

ATTENTION: MetricRegistry[Callable[[Any], "Tensor"]] = MetricRegistry(
    "attention metric", "attncli.metrics.attention"
)

BESIDE_MAPS = ("outputs", "sides", "gates")
"""What metrics read that is not in a map."""

WITHOUT_WEIGHTS = frozenset(
    {"summaries", "columns", "offsets", "spectrum", "gram", "energy", *BESIDE_MAPS}
)
"""Kinds of metrics that `_row_statistics.RowStatistics` has everything for."""

HEAD_GROUPS = ("attention", "spectra", "roles", "copying", "lazy", "sinks", "gates", "memory")
"""Groups by which metrics may be requested."""


def is_metric_of_map_alone(name: str) -> bool:
    """Whether the metric is computed from maps alone."""
    return ATTENTION.declaration_of_entry(name).of not in BESIDE_MAPS
