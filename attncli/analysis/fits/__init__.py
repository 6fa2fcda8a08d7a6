"""fits.

>>> import numpy as np
>>> from attncli.analysis.fits.fit_rows import compute_theoretical_widths
>>> from attncli.fits import FitRequest
>>> from attncli.patterns import build_pattern
>>> window = build_pattern("window:3", 16, np.random.default_rng(0))
>>> compute_theoretical_widths(window, FitRequest(d=4))["all_supports_d"]
6
"""
