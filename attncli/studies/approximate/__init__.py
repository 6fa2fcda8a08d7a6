"""Can one fixed module show these patterns, and how wide must it be?

fit_rows         fits as rows
unmet            requests that are not met, as verdicts
layer_maps       whole maps of a few layers at a time
model_patterns   maps of models as patterns
one_module       one module for all patterns: fitted, decided, verified
least_sizes      the smallest logits and widths that suffice, and how they grow
one_head         one head of a model: which inputs make it show the patterns
all_heads        all heads of a model: what each asks of a module, and what it can show
rank_head_words  what the numbers of `rank_heads` mean
rank_heads       layers of heads trained on the nearest token: rank against heads
"""
