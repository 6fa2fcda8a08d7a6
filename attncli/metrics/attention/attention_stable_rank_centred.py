from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._map_spectrum import SpectrumIteration

if TYPE_CHECKING:
    from torch import Tensor

ROUNDING = 1e-6
"""Of ‖A‖_F²: what float32 leaves of a difference that is zero."""
TINY = 1e-300


@metric("1", group="spectra")
def attention_stable_rank_centred(spectrum: SpectrumIteration) -> "Tensor":
    """‖A - 11^T/n‖_F² / s1(A - 11^T/n)²: the stable rank once uniform attention is subtracted.

    0 where nothing is left. A gap of the spectrum that is only the uniform part's goes away ("Mind the Gap", 2024).
    """
    assert spectrum.values is not None
    largest, square = spectrum.norms_of_centred_map()
    nothing = square <= ROUNDING * spectrum.square
    return (square / largest.square().clamp_min(TINY)).masked_fill(nothing, 0.0)
