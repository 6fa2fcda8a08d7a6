from attncli.metrics import metric
from attncli.metrics.attention._gates import Array, Gates, hold_at_mean, median_contribution


@metric("1", group="gates")
def held_contribution(gates: Gates) -> Array:
    """`gated_contribution` with each gate held at its mean over the queries.

    The same as `gated_contribution`: which query asks does not matter to the gate.
    """
    return median_contribution(gates, hold_at_mean(gates))
