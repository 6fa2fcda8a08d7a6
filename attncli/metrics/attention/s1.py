from typing import TYPE_CHECKING

from attncli.metrics import metric
from attncli.metrics.attention._map_spectrum import SpectrumIteration

if TYPE_CHECKING:
    from torch import Tensor


@metric("1", group="spectra", signed=True)
def s1(spectrum: SpectrumIteration) -> "Tensor":
    """Largest singular value of A.

    Found by iteration, never above the true value; a note says where it had not settled to a thousandth.
    1: rows and columns sum to one; √n: every query looks at the same key. Uniform causal attention over 64 tokens: 1.598.
    """
    assert spectrum.values is not None
    return spectrum.values[..., 0]
