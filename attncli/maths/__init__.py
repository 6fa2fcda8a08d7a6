"""Mathematics on numpy arrays, no input or output.

number_format          numbers as people read them
significance_tests     is a difference more than noise?
dtype_rounding         what float64, float32 and bfloat16 keep of a number
rotary_embedding       rotary positions
common_row_arithmetic  the c+R arithmetic: a common row and what varies, each with its own magnitude
matrices               norms of matrices, products of them, and what is nearest to one
rank_collapse_bound    the paper's bound on pure attention
network_path_counts    how many paths a network has, in exact integers
curve_fits             which laws curves follow, and how fast they move
head_capacity          how wide a module must be for a pattern

    >>> from attncli.maths.network_path_counts import count_paths_by_length
    >>> count_paths_by_length(layers=2, heads=3, skip=True)
    {0: 1, 1: 6, 2: 9}
"""
