"""Residuals below the float floor, through the model's own code: a tensor that carries the common row apart.

split_tensor       SplitTensor: 1c^T + V, each with its own magnitude, in place of the stream; the table of its rules; the refusal
split_shapes       rules for functions that move numbers
split_arithmetic   rules for sums, products and linear layers
score_terms        what attention scores are made of
split_attention    P (1c^T + V): without cancellation where P tends to a common row, with P itself elsewhere
split_scores       scores and weights on their way through a model's attention, not computed before they meet values
einsum             sums of products in letters
convolution        one token at a time, or plain numbers
split_functions    rules for norms and activations, each a difference without cancellation
topk_and_routing   rules for routers and experts
in_place           functions that change their argument
handwritten_norms  the layer and RMS norms that models write out by hand
rounding_samples   a second sample of the rounding
split_run          the context that sends a stack of blocks through all this

Whatever has no rule is refused by its name (`errors.NoRule`), so no architecture is computed that is not understood.
"""
