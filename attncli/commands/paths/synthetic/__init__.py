"""Paths of synthetic networks.

output_by_path_length   the output as a sum of terms, one for each length
metrics_by_path_length  metrics of each term, and of their sum
single_paths            single paths
network_paths           the study: by length
head_shares             by heads
"""
