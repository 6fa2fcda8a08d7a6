from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._map_spectrum import SpectrumIteration

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="spectra", signed=True)
def s2_over_s1(spectrum: SpectrumIteration) -> "Tensor":
    """Second singular value of A over the first.

    0: A has rank 1, all queries look alike; near 1: no direction stands out.
    """
    assert spectrum.values is not None
    return spectrum.values[..., 1] / spectrum.values[..., 0]
