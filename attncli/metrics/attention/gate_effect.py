from attncli.metrics import metric
from attncli.metrics.attention._gate_statistics import (
    Array,
    GateObservations,
    compute_mean_gate_effect,
)


@metric("1", group="gates")
def gate_effect(gates: GateObservations) -> Array:
    """‖(g - ḡ) ctx W_O‖_F / ‖g ctx W_O‖_F, ḡ the gate's mean over the queries: what fixing the gate at its mean would change.

    0: the gate is a constant, which W_O could have taken up; near 1: it decides what is written.
    """
    return compute_mean_gate_effect(gates)
