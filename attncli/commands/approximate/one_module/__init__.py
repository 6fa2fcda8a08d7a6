"""One fixed module for all patterns: what it can express by its inputs alone.

solutions    every method on every pattern, and the narrowest module
module_fits  the study: how wide, at what logit scale
decide       yes with a module, no with a proof
"""
