"""The smallest logits and widths that suffice.

width_logit_frontier  the smallest logits at each width
width_growth          the smallest width at each length
logit_scale_growth    the smallest logits at each length, at fixed widths
"""
