"""Attention and the statistics of its maps from one reading of the scores, by a C library where one was built.

formula           what a call of the attention interface makes of its scores
results           what is written of one attention
compiled_library  the compiled one_pass.c, where there is one
tiles             the same in plain torch, where there is none
fused_calls       the same by fused attention that returns its log-sum-exp, on devices that have it
covered_calls     a covered call, whole or in strips of rows with their weights
kernel_attention  one call of the attention interface by one of them, judged by the model's own eager function
"""
