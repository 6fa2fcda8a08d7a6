"""Commands about commands and reports.

check    `attn check`
ci       ci
compare  compare
config   `attn config`
guide    `attn guide`
list     list
sweep    what `sweep` is made of: which models, their runs, and what decides the numbers of a run
"""
