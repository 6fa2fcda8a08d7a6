"""Paths of trained models.

path_maps           attention maps along a path
model_paths         the study: by length
path_model_heads    by heads
path_model_singles  single paths
path_model_steps    by the number of attentions and of MLPs
"""
