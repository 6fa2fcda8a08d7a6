"""`attn rank-collapse`: how fast does the residual to rank 1 decay over layers, and what holds it up?

model_collapse    any model, its parts switched off
model_arithmetic  which variants of a model can be computed exactly
model_theorem     the same of a trained model
network_gates     what the gates of synthetic networks do
command           the questions, one file each
run               from MODEL and the options of `attn rank-collapse` to its report
"""
