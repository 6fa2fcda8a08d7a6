import numpy as np

from attncli.maths.residuals.split import Split
from attncli.metrics import unit
from attncli.metrics.steps._directions import chords


@unit("1")
def angular_distance(before: Split, after: Split) -> float:
    """Angle between a token before and after the blocks, over π, mean over the tokens (after Gromov et al. 2024).

    0: the same direction; 0.5: orthogonal; 1: opposite.
    """
    half = np.minimum(chords(before, after) / 2.0, 1.0)
    return float((2.0 * np.arcsin(half) / np.pi).mean())
