"""Measurements of forward passes as rows and sentences.

head_rows                                one row for every metric and head
layer_counts_by_mixer                    what mixes tokens in each layer
extreme_heads                            the heads with the least and the most of a metric
token_names                              token labels along a map's sides
token_pairs                              the strongest pairs of tokens
token_pair_and_completeness_definitions  definitions of rows that have no metric file
"""
