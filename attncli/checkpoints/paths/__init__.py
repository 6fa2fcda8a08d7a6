"""A trained model's output as a sum over path lengths, through the model's own code.

The streams of all lengths go through the blocks side by side, as if they were more texts of one batch, under the full
stream, which fixes everything that is not linear: attention weights, the denominators of norms, the ratios f(x)/x of
activations, the gates of gated MLPs. A stream moves on by one length where it goes through an attention (or through an
MLP, if those are counted); a bias begins a path of length 0 where it stands.

tensor      PathTensor: the full stream and one partial stream for each length; and the table of its rules
shapes      rules for functions that move numbers
arithmetic  rules for sums, products and linear layers
functions   rules for norms and activations, with what the full stream fixes
attention   attention with the weights of the full stream
run         sends a stack of blocks through all this

Whatever has no rule is refused by its name, so no architecture is decomposed that is not understood.
"""
