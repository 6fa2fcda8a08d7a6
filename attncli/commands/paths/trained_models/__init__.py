"""Paths of trained models.

attention_map_products         attention maps along a path
model_paths                    the study: by length
head_shares                    by heads
single_paths                   single paths
output_by_attentions_and_mlps  by the number of attentions and of MLPs
"""
