"""Which input tokens does a token's state come from?

token_choices  the token that is asked about
targets        the number that relevance explains
relevance      maps times their gradients, rolled through the layers
report         rows, tables and words of it
attribution    the study: by states, and by relevance
run            `attn attribute`: from the options to the study
command        `attn attribute`
"""
