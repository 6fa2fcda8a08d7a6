"""Commands for saved reports, CI, sweeps, settings and help.

check    `attn check`
ci       `attn ci`
compare  `attn compare`
config   `attn config`
guide    `attn guide`
list     `attn list`
sweep    `attn sweep`: the models, their runs, and the fingerprint of a run
"""
