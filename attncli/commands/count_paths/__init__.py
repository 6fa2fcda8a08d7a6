"""How many paths of each length are there?

run      `attn count-paths`: from sizes, or a config, to the study; nothing is run and no weights are read
command  `attn count-paths`
report   the report of how many paths each length has
"""
