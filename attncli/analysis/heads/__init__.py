"""Measure every head of a model: metrics, forward passes, rows, roles, tables.

forward_passes    forward passes, looked at as they run
rows              the numbers as rows, and in words
classification    roles, and what stands out
map_export        maps that are kept, and what is kept beside them
head_selection    how much of the model was looked at
ordering          by which metric they stand, and how many of them
metric_selection  which metrics are measured
tables            how it is shown
model_heads       a model while it runs
prepare           prepare a model for measuring its heads: find its blocks and attention, and verify the capture
"""
