"""One folder for each question: `command.py` declares its options, `run.py` answers it, `report.py` makes rows and sentences.

about            about
approximate      what one fixed module can show
attribute        which input tokens a state comes from
count_paths      count_paths
dispersion       dispersion
generate         generate
head_capacity    all heads of a model: what each asks of a module, and what it can show
inspect_maps     inspect_maps
inspect_model    inspect_model
inspect_weights  inspect_weights
paths            paths
rank_collapse    how fast attention loses rank
reproduce        small networks trained here on the paper's tasks
sensitivity      sensitivity
verify_fit       verify_fit
"""
