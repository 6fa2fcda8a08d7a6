"""How wide a module must be for a pattern, and what it cannot show.

line            width 1, decided
separated_rows  rows that have keys of their own need width where logits are limited
least_widths    widths that a pattern needs at least
map_widths      the same of one map with weights everywhere
widths          widths that are enough, or needed, for patterns with k keys a row
low_rank_head   what heads of low rank get wrong, in closed form
"""
