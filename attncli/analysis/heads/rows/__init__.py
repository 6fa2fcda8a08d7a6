"""The numbers of forward passes as rows, and in words.

head_rows          one for every metric and head
layer_census       what mixes tokens in each layer
extreme_heads      the heads with the least and the most of a metric
token_names        the words along a map's sides
token_pairs        the strongest pairs of tokens
extra_definitions  what rows of no metric's file are called
"""
