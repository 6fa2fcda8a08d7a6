"""Commands for saved reports, CI, sweeps, settings and help.

check_saved_report      `attn check`
continuous_integration  `attn ci`
compare_reports         `attn compare`
show_settings           `attn config`
show_guides             `attn guide`
list                    `attn list`
sweep                   `attn sweep`: the models, their runs, and the fingerprint of a run
"""
