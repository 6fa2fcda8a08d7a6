"""`attn rank-collapse`: how fast does the residual to rank 1 decay over layers, and what holds it
up?

trained_model_rank_collapse           the study of a trained model, with parts ablated
check_exact_against_float_arithmetic  which variants of a model can be computed exactly
trained_model_collapse_bound          the theorem's constant and bound on a trained model
attention_output_gates                gates on synthetic networks
options                               the options of `attn rank-collapse`
command                               the question of `attn rank-collapse`
run                                   from MODEL and the options of `attn rank-collapse` to its report
"""
