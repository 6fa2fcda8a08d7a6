"""How wide a module must be for a pattern, and what it cannot show.

head_width_one              width 1, decided
width_bounds_by_logit_rank  rows that have keys of their own need width where logits are limited
width_lower_bounds          widths that a pattern needs at least
dense_map_width             the same of one map with weights everywhere
width_formulas              widths that are enough, or needed, for patterns with k keys a row
low_rank_head               what heads of low rank get wrong, in closed form

    >>> from attncli.maths.head_capacity.width_formulas import compute_least_width_for_all_supports
    >>> compute_least_width_for_all_supports(length=64, k=3)
    6
"""
