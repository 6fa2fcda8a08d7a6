"""Which input tokens a token's state comes from.

token_choices     the token that is asked about
explained         the number that relevance explains
relevance         maps times their gradients, rolled through the layers
attribution_rows  rows, tables and words of it
attribution       the study: by states, and by relevance
"""
