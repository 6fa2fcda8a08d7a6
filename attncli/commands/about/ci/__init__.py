"""`attn ci`: the checks that a configuration file names.

acceptance    its report made the baseline
check_runs    one of them
command       `attn ci`
named_checks  the checks that `attn ci` runs
"""
