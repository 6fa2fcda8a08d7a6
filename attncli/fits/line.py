"""Keys on a line."""

import numpy as np
from scipy.sparse import csr_array

from attncli.fits._registry import method
from attncli.fits._types import Fit, FitRequest, MethodNotApplicable
from attncli.fits._width_one_fit import fit_width_one


@method(auto=0, needs=lambda most: 1, at_width=(0, "line"))
def line(target: csr_array, request: FitRequest, rng: np.random.Generator) -> Fit:
    """Width 1, decided: a row's support is the upper or the lower end of one order of the keys, or it is impossible.

    Signs of the queries are forced by pairs of rows, the order by the signs; places and steepnesses are then a linear
    programme, in closed form for equal weights without a mask. The module with the smallest logits, at any width.
    """
    found = fit_width_one(target, request.at_width(1))
    if found.module is not None:
        return found.module.pad_to_width(request.d)
    if found.answer.possible is False:
        return MethodNotApplicable(
            f"width 1 is impossible: {found.answer.reason}", proved=request.d == 1
        )
    return MethodNotApplicable(f"width 1 is not decided: {found.answer.reason}")
