"""A trained model's output as a sum over paths, through the model's own code.

Parts of the stream go through the blocks side by side, as if they were more texts of one batch, under the full stream,
which fixes everything that is not linear: attention weights, the denominators of norms, the ratios f(x)/x of
activations, the gates of gated MLPs. What remains is a linear network, whose output is taken apart by the length of
paths, into single paths, by heads, or by input tokens. A bias, and what another stack's states bring to a decoder,
begins where it stands.

streams              the parts that go side by side, one kind for each question, and what attentions and MLPs do to them
path_tensor          PathTensor: the full stream and its parts in one tensor; and the table of its rules
path_shapes          rules for functions that move numbers
path_arithmetic      rules for sums, products and linear layers
path_functions       rules for norms and activations, with what the full stream fixes
path_attention       attention with the weights of the full stream
path_run             sends a stack of blocks through all this: by length, or along single paths
backward_pass        the frozen network's transpose, block after block: what heads bring to the output
token_contributions  what one token's state comes from: input tokens, constants; and what rollout says of it

Whatever has no rule is refused by its name, so no architecture is decomposed that is not understood.
"""
