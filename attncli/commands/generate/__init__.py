"""`attn generate`: synthetic networks and attention maps in files.

maps     `attn generate maps`
network  `attn generate network`
"""
