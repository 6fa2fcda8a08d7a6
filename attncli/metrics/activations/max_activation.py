from attncli.metrics import metric
from attncli.metrics.activations._activation_state import ActivationState


@metric("1")
def max_activation(state: ActivationState) -> float:
    """Largest |x| of a token in a feature.

    Above 100 and 1000 times the median it is called massive: few tokens and features carry such, in all texts alike.
    """
    return state.largest_magnitude
