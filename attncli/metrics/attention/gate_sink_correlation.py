from attncli.metrics import metric
from attncli.metrics.attention._gate_statistics import (
    Array,
    GateObservations,
    correlate_gate_with_sink,
)


@metric("1", group="gates")
def gate_sink_correlation(gates: GateObservations) -> Array:
    """Correlation over queries of the mean gate and the weight on token 0, of queries that see more keys than one.

    -1: the gate shuts where the head looks at its sink, so the sink is not needed to shut it; 0: unrelated.
    """
    return correlate_gate_with_sink(gates)
