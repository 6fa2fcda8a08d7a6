"""`attn list`: what there is.

catalogue  what there is, as records
command    `attn list`
"""
