"""Paths of synthetic networks.

path_terms     the output as a sum of terms, one for each length
path_measures  metrics of each term, and of their sum
path_samples   single paths
network_paths  the study: by length
path_heads     by heads
"""
