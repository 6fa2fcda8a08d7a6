"""Reports about reports.

chosen_rows  some of the numbers of one
differences  what moved between two of them
model_sweep  one number over many of them
"""
