"""`attn ci`: the checks that a configuration file names.

baseline_acceptance  make reports the baselines (`--accept`)
check_runs           run one check and test its report
command              `attn ci`
named_checks         read the checks of the configuration file
"""
