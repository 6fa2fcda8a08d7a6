"""`attn sweep`: one number over many models.

items     which models, and where their reports lie
runs      the runs, on an engine
command   one question, asked of many models
options   which models, on which engine
report    one metric over many models, such as the checkpoints of a training run: a table, a trend, and what went wrong
terminal  `attn sweep`
"""
