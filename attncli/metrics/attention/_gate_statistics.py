"""Gates of an attention: what multiplies the values that a head has weighed, before W_O takes them.

Formulas in numpy, so that models and synthetic networks are measured alike; a metric's file gives one of them its name.
"""

from math import nan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attncli.metrics.attention._row_block_of_maps import MapStripRows

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[np.float64]

CLOSED = 0.01
"""A gate below it counts as closed."""


class GateObservations(NamedTuple):
    """Gates of one attention on one text."""

    gate: Array
    """[head, query, value or 1]: from 0 to 1."""
    context: Array
    """[head, query, value]: the values, weighed, before the gate."""
    projection: Array
    """[head, value, feature]: each head's part of W_O."""
    sink: Array
    """[head, query]: the weight on token 0; nan for queries that see one key alone, or not that one."""


class SinkColumn:
    """The weights on token 0 of one attention, strip by strip."""

    def __init__(self, rows: MapStripRows) -> None:
        self.parts: list[Array] = []

    def accumulate_map_rows(self, rows: MapStripRows) -> None:
        unseen = (rows.keys_per_query <= 1) | ~rows.sees_first_token
        column = (
            rows.weights_on_first_token.expand(rows.weights.shape[:-1])
            .double()
            .masked_fill(unseen, nan)
        )
        self.parts.append(column.cpu().numpy())

    def split_gates_by_batch_item(
        self, gate: "Tensor", context: "Tensor", projection: "Tensor"
    ) -> list[GateObservations]:
        """Gates of each batch item, from [batch, query, head, …] and [head, value, feature]."""
        sides = [side.double().transpose(1, 2).cpu().numpy() for side in (gate, context)]
        into, column = projection.double().cpu().numpy(), np.concatenate(self.parts, axis=-1)
        return [GateObservations(g, c, into, a) for g, c, a in zip(*sides, column, strict=True)]


def mean_gate_per_head(gates: GateObservations) -> Array:
    found: Array = gates.gate.mean(axis=(1, 2))
    return found


def share_of_closed_gates(gates: GateObservations) -> Array:
    found: Array = (gates.gate < CLOSED).mean(axis=(1, 2))
    return found


def compute_gate_sparsity(gates: GateObservations) -> Array:
    flat = gates.gate.reshape(len(gates.gate), -1)
    squares = (flat**2).sum(axis=1)
    alike = flat.sum(axis=1) ** 2 / np.where(squares == 0.0, 1.0, squares) / flat.shape[1]
    found: Array = np.where(squares == 0.0, 0.0, 1.0 - alike)
    return found


def correlate_gate_with_sink(gates: GateObservations) -> Array:
    return np.array(
        [
            pearson_correlation(gate.mean(axis=-1), sink)
            for gate, sink in zip(gates.gate, gates.sink, strict=True)
        ]
    )


def pearson_correlation(first: Array, second: Array) -> float:
    """Pearson's correlation; nan where either is constant."""
    known = ~np.isnan(second)
    if known.sum() < 3:
        return float("nan")
    x, y = (each[known] - each[known].mean() for each in (first, second))
    size = np.linalg.norm(x) * np.linalg.norm(y)
    return float(x @ y / size) if size > 0.0 else float("nan")


def average_gates_over_queries(gates: GateObservations) -> Array:
    """[head, 1, value or 1]: each gate's mean over the queries."""
    found: Array = gates.gate.mean(axis=1, keepdims=True)
    return found


def compute_output_norms(gates: GateObservations, factor: Array) -> Array:
    """[head, query]: ‖(factor · context) W_O‖, from the Gram matrices of W_O."""
    gated = factor * gates.context
    gram = gates.projection @ gates.projection.swapaxes(1, 2)
    found: Array = np.sqrt(np.maximum(((gated @ gram) * gated).sum(axis=-1), 0.0))
    return found


def compute_mean_gate_effect(gates: GateObservations) -> Array:
    """The relative change when gates stay at their mean; nan for a head that writes nothing."""
    moved = np.linalg.norm(
        compute_output_norms(gates, gates.gate - average_gates_over_queries(gates)), axis=1
    )
    whole = np.linalg.norm(compute_output_norms(gates, gates.gate), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0.0, moved / whole, np.nan)


def compute_median_contribution(gates: GateObservations, factor: Array) -> Array:
    """[head]: the median over queries of a head's share of what all heads write."""
    sizes = compute_output_norms(gates, factor)
    total = sizes.sum(axis=0)
    found: Array = np.median(sizes / np.where(total == 0.0, 1.0, total), axis=1)
    return found
