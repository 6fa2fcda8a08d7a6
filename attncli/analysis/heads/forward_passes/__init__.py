"""Forward passes with their attention maps captured.

strongest_token_pairs       the strongest pairs of tokens, collected strip by strip
uniform_attention_control   the metrics of uniform attention
head_observer               one forward pass, every head and state of it
metric_values_in_one_array  the numbers of a text as one array
text_batches                texts of equal shapes in one pass, each measured separately
hyper_connection_gain       gain of layers that mix several residual streams
"""
