"""Can one fixed module show these patterns, and how wide must it be?

module_fits     one module for all patterns
decide          yes with a module, no with a proof
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
real_inputs     the tokens that make a head of layer 0 show them
token_table     what every token puts into it
token_search    the exchange of tokens
head_survey     all heads of a model
survey_rows     its rows and words
own_maps        what a head's own map asks of a module
random_patterns  what a head's weights can show
rank_heads      layers of heads trained on the nearest token: rank against heads
rank_head_words  its numbers
layer_maps      whole maps of a few layers at a time
"""
