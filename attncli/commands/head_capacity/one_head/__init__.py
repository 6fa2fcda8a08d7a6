"""One trained head: inputs that make it show the patterns.

inputs_for_pattern         fitted free inputs, evaluated in every dtype
head_report                the study of free inputs
token_queries_and_keys     queries and keys of every token in a head of layer 0
search_tokens_for_pattern  coordinate search over the tokens of a text
real_token_inputs          the study of real tokens, alongside free inputs
"""
