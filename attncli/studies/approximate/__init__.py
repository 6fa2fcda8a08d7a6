"""Can one fixed module show these patterns, and how wide must it be?

module_fits     one module for all patterns
solutions       every method on every pattern, and the narrowest
fit_rows        fits as rows
fit_pictures    target, achieved map, error
unmet           requests that are not met, as verdicts
verify_fit      a saved fit, measured again
frontier        the smallest logits at each width
width_growth    the smallest width at each length
scale_growth    both
trained_head    a head of a model
found_inputs    the inputs that make it show the patterns
model_patterns  maps of models as patterns
"""
