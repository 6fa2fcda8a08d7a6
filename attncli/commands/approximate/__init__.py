"""`attn approximate`: can one fixed attention module show these patterns by its inputs alone, and
how wide must it be?

fixed_attention_module     one module for all patterns: fit, decision, verification
smallest_width_and_logits  the smallest logits and widths that suffice, and how they grow
run                        the runs of `attn approximate` at one size: a plain fit, or a decision
runs_over_sizes            its runs over the length, over the width, or over both
command                    the options of `attn approximate`
"""
