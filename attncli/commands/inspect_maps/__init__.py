"""Attention maps that the user has: measured like a model's own.

command      maps that the caller has
map_sources  a file of maps, whoever has saved it: `attn inspect-maps FILE.npz`
report       maps in a file
arrays       attention maps in memory: numpy or torch arrays, such as the `attentions` of a model's output
run          from the options of `attn inspect-maps` to its report
"""
