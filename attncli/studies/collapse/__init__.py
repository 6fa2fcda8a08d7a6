"""How fast does the residual to rank 1 decay, and what holds it up?

network_collapse  synthetic networks over their layers
size_sweep        synthetic networks over a size
model_collapse    any model, its parts switched off
model_arithmetic  which variants of a model can be computed exactly
depth_words       what metrics of depth say in words
theorem_rows      the theorem layer by layer
model_theorem     the same of a trained model
value_gradients   how large the gradients of attention alone are
network_gates     what the gates of synthetic networks do
regimes           what all of them say in words
"""
