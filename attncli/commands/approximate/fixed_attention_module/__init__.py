"""One fixed module for all patterns: what it can express by its inputs alone.

fit_patterns_at_common_width  every method on every pattern, and the narrowest module
pattern_fit_report            the study: width and logit scale
smallest_width_bounds         a verified module, or a proof that there is none
"""
