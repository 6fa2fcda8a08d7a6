"""What mixes tokens, or their streams, beside the attention that is seen.

mixer_words    mixers and layers in words
mixers         recurrences, convolutions, kernels
left_out       attention that is not seen beside attention that is
stream_mixing  matrices that mix the streams of a token
"""
