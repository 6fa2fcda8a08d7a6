"""Paths of heads through layers, and the model they belong to.

path_choices        paths as they are written
path_metrics        what the metrics mean, and what their numbers say
path_model          a model and the stack that is taken apart
direction_sampling  norms, shares and a correlation from a few random directions, with their errors
count_rows          rows of how many paths each length has
prepare             a model whose output is taken apart by paths: loaded, one of its stacks chosen, its capture verified
"""
