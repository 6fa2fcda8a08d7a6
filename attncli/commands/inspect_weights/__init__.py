"""What does a head compare and move, by its weights alone?

head_weight_findings  outliers among the weights
report                measure heads without an input
run                   `attn inspect-weights`: from the options to the study; files are read without torch
command               `attn inspect-weights`
"""
