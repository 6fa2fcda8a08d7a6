from attncli.metrics import metric
from attncli.metrics.attention._gate_statistics import (
    Array,
    GateObservations,
    compute_median_contribution,
)


@metric("1", group="gates")
def gated_contribution(gates: GateObservations) -> Array:
    """Median over tokens of ‖g ctx_h W_O,h‖ / Σ_h ‖g ctx_h W_O,h‖: a head's share of what a gated layer writes.

    1/heads: as much as the others; beside `held_contribution`, the same with gates at their means.
    """
    return compute_median_contribution(gates, gates.gate)
