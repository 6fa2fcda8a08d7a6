"""Norms of matrices, products of them, and what is nearest to one.

matrix_norms                  of a plain matrix, and their logarithms for scaled ones
low_rank_product              a wide matrix of low rank, known by its thin factors
nearest_row_linear_programme  one combination of two norms made least, as a linear programme
nearest_constant_row          the constant-row matrix that is nearest, with a proof
stream_mixing_matrix_gain     how much a chain of matrices enlarges what runs through it

    >>> import numpy as np
    >>> from attncli.maths.matrices.low_rank_product import LowRankProduct
    >>> LowRankProduct(np.ones((64, 1)), np.ones((64, 1))).singular_values.round(6)
    array([64.])
"""
