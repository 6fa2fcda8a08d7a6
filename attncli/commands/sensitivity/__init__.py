"""How sensitive is the last token's final state to each token?

measure_sensitivity  how a model's last token moves with the others
report               sensitivities as rows and in words
run                  `attn sensitivity MODEL`: from the options to the study
command              `attn sensitivity`
"""
