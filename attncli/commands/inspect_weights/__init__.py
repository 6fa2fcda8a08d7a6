"""What does a head compare and move, by its weights alone?

findings  what stands out in weights
report    heads without an input
run       `attn inspect-weights`: from the options to the study, of files without torch
command   `attn inspect-weights`
"""
