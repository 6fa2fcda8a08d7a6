"""`attn approximate`: can one fixed attention module show these patterns by its inputs alone, and how wide must it be?

one_module   one module for all patterns: fitted, decided, verified
least_sizes  the smallest logits and widths that suffice, and how they grow
run          what `attn approximate` can run: a plain fit, a trained head, a sweep or frontier, the check of a saved fit
command      the question of `attn approximate`
"""
