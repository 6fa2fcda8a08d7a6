from attncli.metrics import metric
from attncli.metrics.activations._activation_state import ActivationState, compute_cosine_gap


@metric("1")
def token_cosine_gap_without_spikes(state: ActivationState) -> float:
    """1 - the mean cosine, tokens with massive activations left out.

    Where it is well above token_cosine_gap, or below, few spiking tokens make up the difference.
    """
    return compute_cosine_gap(state.values[~state.massive_tokens])
