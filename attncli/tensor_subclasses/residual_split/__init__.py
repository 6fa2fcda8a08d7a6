"""Residuals below the float floor, through the model's own code: a tensor with a separate common row.

split_tensor                  SplitTensor: 1c^T + V, each with its own magnitude, in place of the stream; the table of its rules; the refusal
split_tensor_shape_functions  rules for functions that move numbers
split_tensor_arithmetic       rules for sums, products, linear layers and convolutions
attention_score_terms         the terms of attention scores
split_tensor_attention        P (1c^T + V): without cancellation where P tends to a common row, with P itself elsewhere
lazy_attention_scores         lazy scores and weights in a model's attention, computed where they meet values
einsum                        einsum as matrix products
gelu_and_erf                  gelu and erf: differences by one formula
norm_layers_and_activations   rules for norms and activations, each a difference without cancellation
topk_and_routing              rules for routers and experts
in_place_functions            functions that change their argument
handwritten_norm_layers       the layer and RMS norms that models write out by hand
split_tensor_forward          the context that runs a stack of blocks with split tensors

Functions without a rule are refused by name (`errors.NoExactRule`), so no architecture is computed that is not understood.
"""
