"""`attn rank-collapse`: how fast does the residual to rank 1 decay over layers, and what holds it
up?

model_collapse    the study of a trained model, with parts ablated
model_arithmetic  which variants of a model can be computed exactly
model_theorem     the theorem's constant and bound on a trained model
network_gates     gates on synthetic networks
command           the options of `attn rank-collapse`
run               from MODEL and the options of `attn rank-collapse` to its report
"""
