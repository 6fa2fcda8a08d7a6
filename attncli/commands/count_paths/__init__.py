"""How many paths of each length are there?

run  `attn paths --count`: from sizes, or a config, to the study; nothing is run and no weights are read
"""
