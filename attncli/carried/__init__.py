"""Tensors that go through a model's own code in place of its stream.

carrier    what the tensors of `exact` and `paths` are: each has a rule of its own for every function of torch
fused      attention as one function of torch
exact      the common row carried apart from the residual: no float floor
paths      the full stream with parts of it side by side: the output taken apart
gradients  the stream as it is, and what of it moves the output
"""
