"""Attention and the statistics of its maps from one reading of the scores, by a C library where one was built.

library  the compiled one_pass.c, where there is one
attend   one call of the attention interface by that library, judged by the model's own eager function
"""
