from attncli.metrics import metric
from attncli.metrics.attention._gate_statistics import (
    Array,
    GateObservations,
    average_gates_over_queries,
    compute_median_contribution,
)


@metric("1", group="gates")
def held_contribution(gates: GateObservations) -> Array:
    """`gated_contribution` with each gate fixed at its mean over the queries.

    The same as `gated_contribution`: which query asks does not matter to the gate.
    """
    return compute_median_contribution(gates, average_gates_over_queries(gates))
