"""One folder for each question: `command.py` declares its options, `run.py` answers it, `report.py`
makes rows and sentences.

utilities        commands for saved reports, CI, sweeps, settings and help
approximate      which patterns one fixed attention module can produce
attribute        which input tokens a state comes from
count_paths      number of paths of each length
dispersion       how heads' numbers change with the length of the text
generate         write attention maps and networks with known answers
head_capacity    which patterns trained heads could produce, and how wide their own maps are
inspect_maps     measure attention maps from a file or from arrays
inspect_model    measure every head and layer of a model
inspect_weights  measure heads by their weights alone
paths            how much of the output travels through paths of each length
rank_collapse    how fast attention loses rank
reproduce        small networks trained here on the paper's tasks
sensitivity      how far small changes of the input move the output
verify_fit       verify a saved fit again

    >>> import attncli as attn
    >>> attn.count_paths(layers=2, heads=1).headline
    '4 paths; length 1 is the most common: a share of 0.500.'
"""
