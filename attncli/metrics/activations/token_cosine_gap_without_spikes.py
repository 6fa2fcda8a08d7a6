from attncli.metrics import metric
from attncli.metrics.activations._activation_state import (
    ActivationState,
    compute_one_minus_mean_cosine,
)


@metric("1")
def token_cosine_gap_without_spikes(state: ActivationState) -> float:
    """1 - the mean cosine, tokens with massive activations left out.

    Where it is well above token_cosine_gap, or below, few spiking tokens make up the difference.
    """
    return compute_one_minus_mean_cosine(state.values[~state.massive_tokens])
