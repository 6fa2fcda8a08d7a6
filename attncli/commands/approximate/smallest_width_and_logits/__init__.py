"""The smallest logits and widths that suffice.

smallest_logits_by_width        the smallest logits at each width
width_growth_with_length        the smallest width at each length
logit_scale_growth_with_length  the smallest logits at each length, at fixed widths
"""
