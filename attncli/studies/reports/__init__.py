"""Reports about reports.

differences  what moved between two of them
model_sweep  one number over many of them
"""
