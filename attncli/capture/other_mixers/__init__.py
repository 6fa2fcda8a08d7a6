"""Parts that mix tokens, or residual streams, other than the captured attention.

mixer_descriptions      mixers and layers in words
token_mixers            recurrences, convolutions, kernels
uncapturable_attention  attention that is not seen beside attention that is
hyper_connections       matrices that mix the streams of a token
"""
