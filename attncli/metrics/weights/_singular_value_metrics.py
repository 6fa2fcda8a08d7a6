"""Functions that the metrics of both products share."""

import numpy as np

from attncli.errors import BelowResolution
from attncli.maths.matrices.low_rank_product import LowRankProduct

ZERO = "the product is zero"


def product_frobenius_norm(product: LowRankProduct) -> float:
    return float(np.linalg.norm(product.singular_values))


def stable_rank(product: LowRankProduct) -> float:
    refuse_zero_product(product)
    relative = product.singular_values / product.singular_values[0]
    return float(np.square(relative).sum())


def effective_rank(product: LowRankProduct) -> float:
    refuse_zero_product(product)
    values = product.singular_values[product.singular_values > 0.0]
    shares = values / values.sum()
    return float(np.exp(0.0 - (shares * np.log(shares)).sum()))


def compute_positive_eigenvalue_share(product: LowRankProduct) -> float:
    values = product.eigenvalues
    if not values.size:
        raise BelowResolution("all eigenvalues are zero to rounding")
    return float((values.real > 0.0).mean())


def refuse_zero_product(product: LowRankProduct) -> None:
    if product.is_zero:
        raise BelowResolution(ZERO)
