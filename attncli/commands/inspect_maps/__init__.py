"""Attention maps that the user has: measured like a model's own.

command           the options of `attn inspect-maps`
map_file_formats  open a file of maps from any program: `attn inspect-maps FILE.npz`
report            measure the maps of a file
in_memory_maps    maps in memory: numpy or torch arrays, such as the `attentions` of a model's output
run               from the options of `attn inspect-maps` to its report
"""
