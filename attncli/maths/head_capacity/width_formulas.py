"""How wide a fixed module must be, or need not be, for patterns with k keys a row; and at what logit scale.

After Likhosherstov, Choromanski and Weller 2021; what is marked so is our own derivation.
"""

import math


def compute_johnson_lindenstrauss_width(
    length: int, k: int, ratio_error: float, off_support: float, largest_ratio: float
) -> int:
    """The theorem's d: 4 ln(2n) / (η²/2 - η³/3), η = ln(1 + ε2) / (2kb), b = ln((1 + ε2) / ε1) + ln γ.

    γ is the largest in-row ratio of two nonzero weights. The constants are our own reconstruction. Vacuous while n is
    small: k = 1, ε = 0.2, n = 1024 asks for 24 390.
    """
    tolerance = math.log1p(ratio_error)
    reach = tolerance - math.log(off_support) + math.log(largest_ratio)
    eta = min(1.0, tolerance / (2.0 * k * max(reach, tolerance)))
    return math.ceil(4.0 * math.log(2.0 * length) / (eta**2 / 2.0 - eta**3 / 3.0))


def compute_least_width_for_all_supports(length: int, k: int) -> int:
    """min(2k, n - 1): below it no keys can serve *all* sets of k keys; one pattern may need less. Our own derivation."""
    return min(2 * k, length - 1)


def bound_width_by_pattern_count(k: int) -> int:
    """⌈k / 2⌉: most patterns with k keys a row need it, even with keys made for them. Our own derivation."""
    return math.ceil(k / 2)


def compute_least_width_for_fixed_keys(
    length: int, k: int, off_support: float, logit_scale: float
) -> float:
    """ln C(n, k) / ln(1 + 2R / ln(1/ε1)): for unit-norm keys that do not know the pattern, at logit scale R.

    The score gap of such keys is ln(1/ε1) / R. Our own derivation.
    """
    gap = -math.log(off_support) / logit_scale if logit_scale > 0.0 else math.inf
    if gap <= 0.0:
        return 0.0
    choices = math.lgamma(length + 1) - math.lgamma(k + 1) - math.lgamma(length - k + 1)
    return choices / math.log1p(2.0 / gap) if math.isfinite(gap) else math.inf


def compute_circle_logit_scale(length: int, off_support: float) -> float:
    """ln(1/ε1) / (1 - cos(2π/n)): one key a row at d = 2, keys evenly on the circle. Our own derivation."""
    return -math.log(off_support) / (2.0 * math.sin(math.pi / length) ** 2)


def compute_permutation_logit_scale_exponent(d: int) -> float:
    """2 / (d - 1): one key a row at width d needs a logit scale ~ n^this. Our own derivation."""
    return 2.0 / (d - 1)
