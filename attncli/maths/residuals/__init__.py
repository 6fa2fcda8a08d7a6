"""The c+R arithmetic: X = 1c^T + R, its common row and its deviation, each with its own exponent and without
cancellation.

scaled_arrays  arrays whose magnitude may leave float range
split_state    a hidden state, split so
activations    token-wise functions of it
logits         attention logits as a reference row plus a deviation
plain_softmax  softmax attention as anyone computes it
softmax        what attention makes of R, exact however small that is
sinkhorn       the same of doubly normalised attention
"""
