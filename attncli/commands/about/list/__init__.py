"""`attn list`: names of metrics, patterns, model types and more.

catalogue  the entries of each list, as records
command    `attn list`
"""
