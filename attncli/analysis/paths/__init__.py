"""Paths of heads through layers, and the model they belong to.

path_selection          parse and format paths
path_metrics            metrics of paths, and sentences about them
decomposed_model        a model and the stack that is decomposed
jacobian_norm_sampling  norms, shares and a correlation from a few random directions, with their errors
path_count_rows         rows of the number of paths of each length
path_model_preparation  load a model, choose the stack to decompose, verify its capture

    >>> from attncli.analysis.paths.path_count_rows import build_path_count_rows
    >>> [row.value for row in build_path_count_rows({0: 1, 1: 6, 2: 9}, "SAN") if row.unit == "1"]
    [0.0625, 0.375, 0.5625]
"""
