from attncli.metrics import metric
from attncli.metrics.attention._gate_statistics import Array, GateObservations, mean_gate_per_head


@metric("1", group="gates")
def gate_mean(gates: GateObservations) -> Array:
    """Mean over queries and features of the gate that multiplies the head's output.

    1: open; 0.5: untrained, or undecided; 0: the head is shut off.
    """
    return mean_gate_per_head(gates)
