"""Paths of heads through layers, and the model they belong to.

path_selection          parse and format paths
path_metrics            metrics of paths, and sentences about them
decomposed_model        a model and the stack that is decomposed
jacobian_norm_sampling  norms, shares and a correlation from a few random directions, with their errors
path_count_rows         rows of the number of paths of each length
prepare                 load a model, choose the stack to decompose, verify its capture
"""
