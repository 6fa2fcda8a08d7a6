"""`attn generate`: synthetic networks and attention maps in files.

command   synthetic networks and maps in files: `attn generate network` and `attn generate maps`
terminal  `attn generate network` and `attn generate maps`
"""
