"""The c+R arithmetic: X = 1c^T + R, its common row and its deviation, each with its own exponent and without
cancellation.

arrays_with_integer_exponent        arrays whose magnitude may leave float range
common_row_plus_deviation           a hidden state, split so
activation_functions                token-wise functions of it
logit_deviation_from_reference_row  attention logits as a reference row plus a deviation
softmax_attention                   softmax attention as anyone computes it, and what it makes of R, exact however small that is
sinkhorn_attention                  the same of doubly normalised attention

    >>> import numpy as np
    >>> from attncli.maths.common_row_arithmetic.common_row_plus_deviation import SplitState
    >>> state = SplitState.from_states(np.array([[1.0, 2.0], [3.0, 2.0]])).to_split_form()
    >>> state.common.value(), state.residual_to_token_mean.value()[0]
    (array([2., 2.]), array([-1.,  0.]))
"""
