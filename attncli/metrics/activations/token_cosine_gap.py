from attncli.metrics import metric
from attncli.metrics.activations._activation_state import (
    ActivationState,
    compute_one_minus_mean_cosine,
)


@metric("1")
def token_cosine_gap(state: ActivationState) -> float:
    """1 - the mean cosine between two different tokens.

    0: all tokens point the same way (over-smoothed); 1: they are orthogonal on average.
    """
    return compute_one_minus_mean_cosine(state.values)
