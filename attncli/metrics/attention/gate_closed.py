from attncli.metrics import metric
from attncli.metrics.attention._gate_statistics import (
    Array,
    GateObservations,
    share_of_closed_gates,
)


@metric("1", group="gates")
def gate_closed(gates: GateObservations) -> Array:
    """Share of the gate's entries below 0.01.

    0: none; near 1: the head is shut off for nearly all queries and features.
    """
    return share_of_closed_gates(gates)
