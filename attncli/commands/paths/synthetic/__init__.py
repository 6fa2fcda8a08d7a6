"""Paths of synthetic networks.

output_by_path_length   the output as a sum of terms, one for each length
metrics_by_path_length  metrics of each term, and of their sum
single_paths            single paths
path_length_report      the study: by length
output_shares_by_head   by heads
"""
