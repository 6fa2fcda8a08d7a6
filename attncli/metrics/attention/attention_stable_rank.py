from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._map_spectrum import SpectrumIteration

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="spectra", signed=True)
def attention_stable_rank(spectrum: SpectrumIteration) -> "Tensor":
    """‖A‖_F² / s1², how many directions A has.

    1: all queries look alike; n: a permutation. Independent normal logits of variance σ² have e^{σ²}.
    """
    assert spectrum.values is not None
    return spectrum.square / spectrum.values[..., 0].square()
