"""The smallest logits and widths that suffice.

frontier      the smallest logits at each width
width_growth  the smallest width at each length
scale_growth  the smallest logits at each length, at fixed widths
"""
