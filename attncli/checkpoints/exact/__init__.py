"""Residuals below the float floor, through the model's own code: a tensor that carries the common row apart.

tensor      SplitTensor: 1c^T + V, each with its own magnitude, in place of the stream; and the table of its rules
shapes      rules for functions that move numbers
arithmetic  rules for sums, products and linear layers
functions   rules for norms and activations, each a difference without cancellation
attention   attention on split queries, keys and values
norms       the RMS norms that models write out by hand
run         the context that sends a stack of blocks through all this

Whatever has no rule is refused by its name, so no architecture is computed that is not understood.
"""
