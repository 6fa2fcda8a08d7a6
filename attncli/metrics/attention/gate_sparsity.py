from attncli.metrics import metric
from attncli.metrics.attention._gate_statistics import (
    Array,
    GateObservations,
    compute_gate_sparsity,
)


@metric("1", group="gates")
def gate_sparsity(gates: GateObservations) -> Array:
    """1 - (Σ g)² / (N Σ g²) over the gate's N entries: how few of them carry it.

    0: all alike, as where the gate is held at a number; near 1: a few are open, the rest shut.
    """
    return compute_gate_sparsity(gates)
