"""How many paths of each length are there?

run      from sizes, or a config, to the study; no model is run and no weights are read
command  `attn count-paths`
report   the number of paths of each length
"""
