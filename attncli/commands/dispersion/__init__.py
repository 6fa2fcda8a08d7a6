"""How does attention disperse as the text gets longer?

report   how a model's numbers move with the length of the text
run      `attn dispersion`: from the options to the study
command  `attn dispersion`
"""
