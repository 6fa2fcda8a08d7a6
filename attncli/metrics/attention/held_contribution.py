from attncli.metrics import metric
from attncli.metrics.attention._gate_statistics import (
    Array,
    GateObservations,
    compute_median_contribution,
    replace_gates_by_mean,
)


@metric("1", group="gates")
def held_contribution(gates: GateObservations) -> Array:
    """`gated_contribution` with each gate fixed at its mean over the queries.

    The same as `gated_contribution`: which query asks does not matter to the gate.
    """
    return compute_median_contribution(gates, replace_gates_by_mean(gates))
