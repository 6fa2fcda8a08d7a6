"""Measure a saved fit again.

report   a saved fit, measured again
command  `attn verify-fit`
"""
