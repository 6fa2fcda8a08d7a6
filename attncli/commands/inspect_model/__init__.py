"""`attn inspect-model`: what does each head and layer do?

command  the options of `attn inspect-model`
run      from MODEL and the options to a study of its heads
"""
