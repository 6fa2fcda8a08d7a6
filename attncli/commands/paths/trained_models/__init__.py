"""Paths of trained models.

attention_map_products         attention maps along a path
path_length_report             the study: by length
output_shares_by_head          by heads
single_paths                   single paths
output_by_attentions_and_mlps  by the number of attentions and of MLPs
"""
