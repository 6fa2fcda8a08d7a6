"""Which input tokens does a token's state come from?

token_position_option  resolve --token to a position
relevance_targets      the number that relevance explains
relevance              maps times their gradients, rolled through the layers
report                 its rows, tables and sentences
attribution            the study: by states, and by relevance
run                    `attn attribute`: from the options to the study
command                `attn attribute`
"""
