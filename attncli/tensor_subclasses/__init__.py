"""Tensor subclasses that replace the residual stream in a model's own code.

dispatch         the base class of the tensors of `exact` and `paths`: a rule for every torch function
fused_attention  sdpa by its definition
residual_split   the common row and the residual as separate numbers: no float floor
path_streams     the full stream with parts of it in one batch: decomposes the output
gradients        the stream with autograd: which inputs move the output
"""
