"""Modules that mix tokens, or residual streams, other than the captured attention.

token_mixers            recurrences, convolutions, kernels
uncapturable_attention  attention that cannot be captured, in models where other attention can
hyper_connections       matrices that mix the streams of a token
"""
