"""A trained model's output as a sum over paths, through the model's own code.

Parts of the stream run through the blocks as further texts of the batch, after the full stream, which fixes everything
that is not linear: attention weights, the denominators of norms, the ratios f(x)/x of activations, the gates of gated
MLPs. What remains is a linear network, whose output is decomposed by the length of paths, into single paths, by heads, or
by input tokens. A bias, and the states of another stack in a decoder, begin paths where they are added.

partial_streams              partial streams, one class for each question, and what attentions and MLPs do to them
path_tensor                  PathTensor: the full stream and its parts in one tensor; and the table of its rules
path_tensor_shape_functions  rules for functions that move numbers
path_tensor_arithmetic       rules for sums, products and linear layers
norm_layers_and_activations  rules for norms and activations, with the full stream's denominators and ratios
path_tensor_attention        attention with the weights of the full stream
path_tensor_forward          run a stack of blocks with path tensors: by length, or along single paths
head_contributions           the frozen network's transpose, block by block: contributions of heads
token_contributions          contributions of input tokens and constants to one token's state; and rollout

Functions without a rule are refused by name, so no architecture is decomposed that is not understood.
"""
