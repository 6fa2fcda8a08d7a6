"""One fixed module for all patterns: what it can express by its inputs alone.

solutions       every method on every pattern, and the narrowest module
pattern_fits    the study: width and logit scale
width_decision  a verified module, or a proof that there is none
"""
