"""Attention and the statistics of its maps from one reading of the scores, by a C library where one was built.

attention_score_formula          what a call of the attention interface makes of its scores
attention_output_and_statistics  what is written of one attention
compiled_library                 the compiled one_pass.c, where there is one
tiled_attention                  the same in plain torch, where there is none
fused_attention_calls            the same by fused attention that returns its log-sum-exp, on devices that have it
attention_in_one_pass            a covered call, whole or in strips of rows with their weights
one_pass_checked_against_eager   one call of the attention interface by one of them, judged by the model's own eager function
"""
