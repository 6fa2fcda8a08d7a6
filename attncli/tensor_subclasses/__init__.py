"""Tensors that travel through a model's own code in place of its residual stream.

dispatch         what the tensors of `exact` and `paths` are: each has a rule of its own for every function of torch
fused_attention  attention as one function of torch
residual_split   the common row carried apart from the residual: no float floor
path_streams     the full stream with parts of it side by side: the output taken apart
gradients        the stream as it is, and what of it moves the output
"""
