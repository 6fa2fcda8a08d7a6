"""What does each head do?

model_heads       a model while it runs
length_sweep      how its numbers move with the length of the text
saved_maps        maps in a file
head_runs         one forward pass, looked at as it runs
head_metrics      which metrics are measured
head_rows         the numbers as rows
uniform_null      the same of even attention
roles             what a head's numbers make it
head_roles        the heads by their roles
head_findings     what stands out
head_views        how it is shown
chosen_heads      how much of the model was looked at
layer_census      what mixes tokens in each layer
linear_heads      the heads of linear layers
stream_gains      streams of a token that layers mix
kept_maps         maps that are kept
small_maps        maps small enough for a page
extreme_heads     the heads with the least and the most of a metric
strongest_pairs   the strongest pairs of tokens, kept while maps go past
token_pairs       the same in words
token_names       the words along a map's sides
beyond_maps       what maps do not show, kept beside them
attribution       which input tokens a state comes from
attribution_rows  its rows
relevance         maps times their gradients, rolled through the layers
explained         the number that relevance explains
token_choices     the token that is asked about
weights_only      heads without an input
weight_findings   what stands out in weights
"""
